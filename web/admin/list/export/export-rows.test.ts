import { setTimeout as pause } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import type { PageWanted } from '../use-rows.ts';
import { createExport } from './export-rows.ts';

const total = 100_000;

interface Numbered {
  id: string;
  created_at: string;
}

const columns = [{ title: 'Number', value: ({ id }: Numbered) => Number(id) }];

/** A table of rows 1 to `total`, which answers at most `maxRows` at once. */
function openTable({ maxRows = 1000, onPage = async (_page: PageWanted, _rows: Numbered[]) => {} } = {}) {
  return async (page: PageWanted) => {
    const first = Number(page.after?.id ?? 0) + 1;
    const rows = Array.from({ length: Math.min(page.limit, maxRows, total + 1 - first) }, (_, index) => ({
      id: String(first + index),
      created_at: '2026-11-27T08:00:00Z',
    }));
    await onPage(page, rows);
    return { data: rows, error: null };
  };
}

const idle = () => {};
const never = new AbortController().signal;
const numbersIn = async (file: Blob) => (await file.text()).split('\r\n').slice(1, -1).map(Number);
const allNumbers = Array.from({ length: total }, (_, index) => index + 1);

test('a file has all of 100,000 rows in their order, and fewer than three pages are in memory at once', async () => {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  const rows: WeakRef<Numbered>[] = [];
  let most = 0;
  const read = openTable({
    async onPage({ after }, page) {
      rows.push(...page.map((row) => new WeakRef(row)));
      if (Number(after?.id ?? 0) % 10_000 !== 0) return;
      // A reference just created, or read, holds its row until the next task.
      await pause();
      collectGarbage();
      most = Math.max(most, rows.filter((row) => row.deref()).length);
    },
  });
  const file = await createExport(read, columns).writeRest(never, idle);
  expect(await numbersIn(file)).toEqual(allNumbers);
  expect(most).toBeLessThan(3000);
});

test('reports its progress, and reads nothing more once it is stopped', async () => {
  const stop = new AbortController();
  let pages = 0;
  const read = openTable({
    async onPage() {
      pages += 1;
    },
  });
  const rows = createExport(read, columns);
  const progress: number[] = [];
  const written = rows.writeRest(stop.signal, () => {
    progress.push(rows.count());
    if (rows.count() === 50_000) stop.abort();
  });
  await expect(written).rejects.toThrow('aborted');
  expect(progress).toEqual(Array.from({ length: 50 }, (_, index) => (index + 1) * 1000));
  // The page that was on its way.
  expect(pages).toBe(51);
});

test('an export that fails in the middle gives no file, and goes on with the page that failed', async () => {
  let isConnected = true;
  const read = openTable({
    async onPage({ after }) {
      if (after?.id === '43000' && isConnected) {
        isConnected = false;
        throw new TypeError('Failed to fetch');
      }
    },
  });
  const rows = createExport(read, columns);
  await expect(rows.writeRest(never, idle)).rejects.toThrow('Failed to fetch');
  expect(rows.count()).toBe(43_000);
  expect(await numbersIn(await rows.writeRest(never, idle))).toEqual(allNumbers);
});

test('an answer with an error is an error', async () => {
  const rows = createExport(
    async () => ({ data: null, error: { message: 'The answer is too large' } }),
    columns,
  );
  await expect(rows.writeRest(never, idle)).rejects.toThrow('The answer is too large');
});

test('a service that returns fewer rows than requested loses none', async () => {
  const file = await createExport(openTable({ maxRows: 400 }), columns).writeRest(never, idle);
  expect(await numbersIn(file)).toEqual(allNumbers);
});
