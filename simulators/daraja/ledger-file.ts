// Stores ledger entries on disk as JSON lines; acknowledged entries survive a kill.
import { mkdir, open, readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type LedgerEntry, readEntry } from './ledger-entries.ts';

export type LedgerFile = {
  /** Resolves when the entry is on disk. Entries appended at the same time share one write. */
  append(entry: LedgerEntry): Promise<void>;
  /** Resolves when every entry appended so far has been written. */
  written(): Promise<void>;
  empty(): Promise<void>;
  close(): Promise<void>;
};

/** Opens or creates the file and reads its entries. Throws when a line before the last one is damaged. */
export async function openLedgerFile(path: string): Promise<{ file: LedgerFile; entries: LedgerEntry[] }> {
  await mkdir(dirname(path), { recursive: true });
  const { entries, intactBytes } = await readExisting(path);
  const handle = await open(path, 'a');
  await handle.truncate(intactBytes);

  let tail: Promise<void> = Promise.resolve();
  let batch: { lines: string[]; written: Promise<void> } | null = null;

  function enqueue(work: () => Promise<void>): Promise<void> {
    const done = tail.then(work);
    tail = done.catch(() => undefined);
    return done;
  }

  const file: LedgerFile = {
    append(entry) {
      if (batch === null) {
        const lines: string[] = [];
        const written = enqueue(async () => {
          batch = null;
          await handle.appendFile(lines.join(''));
          await handle.datasync();
        });
        batch = { lines, written };
      }
      batch.lines.push(`${JSON.stringify(entry)}\n`);
      return batch.written;
    },
    written: () => tail,
    empty: () => enqueue(() => handle.truncate(0)),
    async close() {
      await tail;
      await handle.close();
    },
  };
  return { file, entries };
}

async function readExisting(path: string): Promise<ReturnType<typeof readEntries>> {
  const bytes = await readFile(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return Buffer.alloc(0);
    throw error;
  });
  return readEntries(path, bytes);
}

function readEntries(path: string, bytes: Buffer): { entries: LedgerEntry[]; intactBytes: number } {
  // A kill during a write leaves an incomplete last line, which was never acknowledged.
  const intactBytes = bytes.lastIndexOf('\n') + 1;
  const lines = bytes.subarray(0, intactBytes).toString('utf8').split('\n').slice(0, -1);
  const entries = lines.map((line, index) => {
    const entry = readEntry(line);
    if (entry === null)
      throw new Error(`Line ${index + 1} of the simulator's ledger ${path} cannot be read.`);
    return entry;
  });
  return { entries, intactBytes };
}
