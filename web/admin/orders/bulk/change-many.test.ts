import { expect, test } from 'vitest';
import { changeMany } from './change-many.ts';

test('one row that is refused does not stop the others, and each is changed once', async () => {
  const changed: number[] = [];
  const progress: number[] = [];
  const rows = Array.from({ length: 20 }, (_, index) => index);
  const result = await changeMany(
    rows,
    async (row) => {
      if (row % 7 === 3) throw new Error(`refused ${row}`);
      changed.push(row);
    },
    (done) => progress.push(done),
  );
  expect(changed.toSorted((one, other) => one - other)).toEqual(rows.filter((row) => row % 7 !== 3));
  expect(result.changed).toHaveLength(17);
  expect(result.failed.map(({ row, error }) => [row, error.message])).toEqual([
    [3, 'refused 3'],
    [10, 'refused 10'],
    [17, 'refused 17'],
  ]);
  expect(progress).toEqual(Array.from({ length: 20 }, (_, index) => index + 1));
});

test('leaves the rows that are left as they are once it is stopped', async () => {
  const started: number[] = [];
  const { changed } = await changeMany(
    [1, 2, 3, 4, 5, 6, 7, 8],
    async (row) => {
      started.push(row);
    },
    () => {},
    () => started.length >= 5,
  );
  expect(changed).toEqual([1, 2, 3, 4, 5]);
});
