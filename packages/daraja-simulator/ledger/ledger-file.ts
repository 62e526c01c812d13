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

/** A line of the ledger is damaged, but later ones are not. The message is for the operator. */
export class UnreadableLedger extends Error {
  override readonly name = 'UnreadableLedger';
  constructor(path: string, line: number) {
    super(
      `Line ${line} of the simulator's ledger ${path} cannot be read. Delete that line, or the file to begin with an empty ledger.`,
    );
  }
}

/** Opens or creates the file and reads its entries. Throws UnreadableLedger when a line before the end is damaged. */
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
  const entries: LedgerEntry[] = [];
  let intactBytes = 0;
  let unreadable: number | null = null;
  for (let line = 1, start = 0; start < bytes.length; line += 1) {
    const end = bytes.indexOf('\n', start);
    const entry = end < 0 ? null : readEntry(bytes.toString('utf8', start, end));
    start = end < 0 ? bytes.length : end + 1;
    if (entry === null) unreadable ??= line;
    else if (unreadable !== null) throw new UnreadableLedger(path, unreadable);
    else {
      entries.push(entry);
      intactBytes = start;
    }
  }
  // A kill or a power cut during a write leaves an incomplete end, which was never acknowledged.
  if (unreadable !== null) {
    console.warn(
      `daraja simulator: ignored the incomplete end of the ledger ${path} from line ${unreadable}`,
    );
  }
  return { entries, intactBytes };
}
