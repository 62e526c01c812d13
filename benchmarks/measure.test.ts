import { expect, test } from 'vitest';
import { hasFallen, summarise } from './measure.ts';

const rate = { name: 'product list', unit: '/s' } as const;
const time = { name: 'ready after a start', unit: 's', isCost: true } as const;

test('takes the ratio within each round, so that a slow minute of the machine affects neither side', () => {
  const rounds = [
    { value: 90, yardstick: 100, other: 100 },
    { value: 9, yardstick: 10, other: 10 },
    { value: 50, yardstick: 100, other: 40 },
  ];
  const result = summarise('PGlite', rate, rounds, 'bare PGlite', 'eb0c090');
  expect(result).toMatchObject({ value: 50, yardstick: { ratio: 0.9 }, beside: { eb0c090: 0.9 } });
  expect(hasFallen(result)).toBe(true);
});

test('counts a longer time as worse', () => {
  const slower = summarise('PGlite', time, [{ value: 1.2, other: 1 }], undefined, 'eb0c090');
  expect(slower.beside?.eb0c090).toBeCloseTo(0.83, 2);
  expect(hasFallen(slower)).toBe(true);
  const faster = summarise('PGlite', time, [{ value: 1, other: 1.2 }], undefined, 'eb0c090');
  expect(hasFallen(faster)).toBe(false);
});

test('counts a row without a measured ratio as fallen', () => {
  expect(hasFallen(summarise('PGlite', rate, [{ value: 0, other: 0 }], undefined, 'eb0c090'))).toBe(true);
});
