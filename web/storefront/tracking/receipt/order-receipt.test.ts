import { expect, test } from 'vitest';
import { readReceipt } from './order-receipt.ts';

const answer = {
  id: 'a',
  access_key: 'secret',
  live_handle: 'handle',
  tracking_number: 'JJ-20261121-1234',
  status: 'processing',
  payment_status: 'paid',
  delivery_fee: 100,
  total_amount: 95_100,
  created_at: '2026-11-21T06:00:00Z',
  updated_at: '2026-11-21T06:05:00Z',
  is_masked: false,
  customer_name: 'Amina Kamau',
  customer_phone: '+254712345678',
  shipping_address: 'Westlands',
  order_items: [{ id: 'i', name: 'Mango', quantity: 1, unit_price: 95_000 }],
  payments: [{ id: 'p', charge_cents: 95_100, receipt: 'UKL3AB12CD', completed_at: '2026-11-21T06:05:00Z' }],
};

test('a receipt contains items and payments', () => {
  expect(readReceipt(answer)).toMatchObject({
    trackingNumber: 'JJ-20261121-1234',
    customerName: 'Amina Kamau',
    items: [{ name: 'Mango', quantity: 1, unitPrice: 95_000 }],
    payments: [{ chargeCents: 95_100, receipt: 'UKL3AB12CD', refundedAt: null, isSurplus: false }],
  });
});

test('rejects an incomplete receipt', () => {
  expect(readReceipt({ ...answer, is_masked: true })).toBeNull();
  expect(readReceipt({ ...answer, total_amount: undefined })).toBeNull();
  expect(readReceipt([answer])).toBeNull();
  expect(readReceipt({ ...answer, payments: 'none', order_items: [null, {}] })).toMatchObject({
    payments: [],
    items: [],
  });
});
