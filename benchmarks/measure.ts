// Measures builds alternately: in each round the yardstick, then each row of each build.
import type { Row, RowGroup } from './measurements/rows.ts';
import { type Result, show } from './results.ts';
import type { BenchShop } from './shops/bench-shop.ts';

/** Below this ratio to the other commit a row has fallen. */
export const lowestRatio = 0.95;

interface Round {
  value: number;
  yardstick?: number;
  other?: number;
}

/**
 * Measures a group. Rows that seem to have fallen are measured as often again, and all rounds count.
 * @param other the shop of the other commit
 */
export async function measureGroup(
  database: string,
  { yardstick, rounds, prepare, rows }: RowGroup,
  usualRounds: number,
  shop: BenchShop,
  other: BenchShop | null,
): Promise<Result[]> {
  const shops = other ? [shop, other] : [shop];
  const count = rounds ?? usualRounds;
  const measured = new Map<Row, Round[]>(rows.map((row) => [row, []]));
  const resultOf = (row: Row) =>
    summarise(database, row, measured.get(row) ?? [], yardstick?.name, other?.build.name);
  // The other groups are still measured.
  try {
    await Promise.all(shops.map((each) => prepare?.(each)));
  } catch (error) {
    console.warn(`${database}: ${rows.map(({ name }) => name).join(', ')} not prepared: ${error}`);
    return rows.map(resultOf);
  }

  const measureRounds = async (chosen: readonly Row[]) => {
    for (let round = 0; round < count; round += 1) {
      const stick = await yardstick?.measure();
      for (const row of chosen) {
        const values = new Map<BenchShop, number>();
        // Neither is always the second one.
        for (const each of round % 2 === 0 ? shops : shops.toReversed()) {
          // The other rows are still measured.
          const value = await row.measure(each).catch((error: Error) => {
            console.warn(`${each.build.name}, ${database}: ${row.name} failed: ${error.message}`);
            return Number.NaN;
          });
          values.set(each, value);
        }
        measured.get(row)?.push({
          value: values.get(shop) ?? Number.NaN,
          ...(stick === undefined ? {} : { yardstick: stick }),
          ...(other ? { other: values.get(other) ?? Number.NaN } : {}),
        });
      }
    }
  };
  await measureRounds(rows);
  const fallen = count === 1 ? [] : rows.filter((row) => hasFallen(resultOf(row)));
  if (fallen.length > 0) await measureRounds(fallen);
  const results = rows.map(resultOf);
  for (const { row, value, unit, yardstick: stick, beside } of results) {
    const ratios = [
      ...(stick ? [`${show(stick.ratio)} of ${stick.name}`] : []),
      ...Object.entries(beside ?? {}).map(([commit, ratio]) => `${show(ratio)} of ${commit}`),
    ];
    console.log(`${database}: ${row}: ${[`${show(value)} ${unit}`, ...ratios].join(', ')}`);
  }
  return results;
}

/** Whether the work tree does worse than another commit. */
export const hasFallen = ({ beside }: Result): boolean =>
  Object.values(beside ?? {}).some((ratio) => !(ratio >= lowestRatio));

/** Medians of the values and of the ratios within each round. */
export function summarise(
  database: string,
  { name, unit, isCost }: Pick<Row, 'name' | 'unit' | 'isCost'>,
  rounds: readonly Round[],
  yardstickName: string | undefined,
  otherName: string | undefined,
): Result {
  const better = (value: number, than: number) => (isCost ? than / value : value / than);
  const of = (read: (round: Round) => number) => median(rounds.map(read));
  return {
    row: name,
    database,
    value: of(({ value }) => value),
    unit,
    ...(isCost ? { isCost } : {}),
    ...(yardstickName
      ? {
          yardstick: {
            name: yardstickName,
            value: of(({ yardstick = Number.NaN }) => yardstick),
            ratio: of(({ value, yardstick = Number.NaN }) => better(value, yardstick)),
          },
        }
      : {}),
    ...(otherName
      ? { beside: { [otherName]: of(({ value, other = Number.NaN }) => better(value, other)) } }
      : {}),
  };
}

/** Of the rounds that did not fail. */
function median(values: number[]): number {
  const measured = values.filter((value) => !Number.isNaN(value)).sort((a, b) => a - b);
  return measured[Math.floor(measured.length / 2)] ?? Number.NaN;
}
