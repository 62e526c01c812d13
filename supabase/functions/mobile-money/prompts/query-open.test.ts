import { expect, test } from 'vitest';
import type { MobileMoneyContext } from '../context.ts';
import { queryOpenPayments } from './query-open.ts';

test.each([
  [undefined, 1, 5],
  [30, 1, 30],
  [100, 5, 100],
])(
  'where M-PESA allows %s queries a minute, a call leases %i of at most %i',
  async (allowed, atMost, perMinute) => {
    const leased: number[][] = [];
    const context = {
      daraja: { settings: { queriesPerMinute: allowed } },
      payments: {
        leaseQueries: async (...given: number[]) => {
          leased.push(given);
          return [];
        },
      },
    };
    expect(await queryOpenPayments(context as unknown as MobileMoneyContext)).toEqual({
      queried: 0,
      settled: 0,
    });
    expect(leased).toEqual([[atMost, perMinute]]);
  },
);
