import { expect, test } from 'vitest';
import type { Work } from '../deliveries/rider-queries.ts';
import { isThere, queueMatters } from './attention.tsx';

test('the dashboard counts the orders of the queue, first the customers who ask to cancel', () => {
  const work: Work = {
    to_prepare: 2,
    ready: 0,
    on_the_way: 4,
    failed: 1,
    late: 3,
    unpaid: 0,
    refunds_due: 0,
    to_assign: 0,
    late_deliveries: 0,
    cash_not_received: 0,
    to_cancel: 1,
    to_agree: 0,
  };
  const shown = queueMatters(work).filter(isThere);
  expect(shown.map(({ count, one, many }) => `${count} ${count === 1 ? one : many}`)).toEqual([
    '1 customer asks to cancel',
    '2 orders to prepare',
    '1 delivery failed',
    '3 orders are late',
  ]);
});
