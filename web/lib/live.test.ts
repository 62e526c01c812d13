import { expect, test } from 'vitest';
import { readOrderChange } from './live.ts';

const change = {
  id: 'order-1',
  status: 'delivered',
  payment_status: 'paid',
  updated_at: '2026-11-21T09:00:00Z',
};

test('reads the known fields of an order change', () =>
  expect(readOrderChange({ ...change, tracking_number: 'JJ-20261121-1234' })).toEqual(change));

test.each([null, undefined, 'text', {}, { ...change, status: 5 }, { ...change, id: undefined }])(
  'ignores %j',
  (payload) => expect(readOrderChange(payload)).toBeNull(),
);
