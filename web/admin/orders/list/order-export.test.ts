import { expect, test } from 'vitest';
import type { OrderPaymentStatus, RefundStatus } from '../../../../supabase/types.ts';
import { exportColumns } from './order-export.ts';
import type { ExportedOrder } from './orders-to-export.ts';

type Payment = ExportedOrder['payments'][number];
const payment = (receipt: string, completed_at: string, rest: Partial<Payment> = {}): Payment => ({
  receipt,
  completed_at,
  status: 'completed',
  needs_refund: false,
  charge_cents: 50_000,
  method: 'till',
  refunded_at: null,
  refunds: [],
  change_notes: [],
  ...rest,
});

const cell = (title: string, order: Partial<ExportedOrder>) =>
  exportColumns
    .find((column) => column.title === title)
    ?.value({ status: 'processing', payment_status: 'paid', payments: [], ...order } as ExportedOrder);

test('the file calls a payment what the list calls it', () => {
  expect(cell('Payment', {})).toBe('Paid');
  expect(cell('Payment', { status: 'cancelled' })).toBe('Refund due');
  const inReview = [payment('', '', { status: 'review' })];
  expect(cell('Payment', { payment_status: 'unpaid', payments: inReview })).toBe('Needs review');
});

test('the file has what a discount code takes off', () => {
  expect(cell('Discount (KES)', { discount_cents: 9_500 })).toBe(95);
  expect(cell('Discount code', { discount_code: 'JANI10' })).toBe('JANI10');
});

test('the file has the area of delivery', () => {
  expect(cell('Area', { area_name: 'Kilimani' })).toBe('Kilimani');
  expect(cell('Area', { area_name: null })).toBeNull();
});

test('the file says how an order came', () => {
  expect(cell('Came by', { source: 'storefront' })).toBe('Storefront');
  expect(cell('Came by', { source: 'walk_in' })).toBe('Walk-in');
});

test.each<[OrderPaymentStatus, total: number]>([
  ['unpaid', 1300.5],
  ['paid', 1301],
  ['needs_review', 1301],
  ['refunded', 1301],
])('the file has the total of an order that is %s as %d', (payment_status, total) => {
  expect(cell('Total (KES)', { payment_status, total_amount: 130_050 })).toBe(total);
});

test('an order is paid when its last part came, whatever was paid twice', () => {
  const payments = [
    payment('UKL3AB12CF', '2026-11-24T09:00:00Z', { needs_refund: true }),
    payment('UKL3AB12CE', '2026-11-24T08:00:00Z'),
    payment('UKL3AB12CD', '2026-11-24T07:00:00Z'),
  ];
  expect(cell('Paid (Nairobi time)', { payments })).toBe('2026-11-24 11:00');
});

test('the file has every receipt with the money received, and what went back', () => {
  const refund = (refund_cents: number, status: RefundStatus) => ({
    refund_cents,
    status,
    method: 'by_hand' as const,
    completed_at: status === 'completed' ? '2026-11-25T09:00:00Z' : null,
    refund_receipt: status === 'completed' ? 'UKN3AB12CF' : null,
  });
  const payments = [
    payment('UKL3AB12CF', '2026-11-24T09:00:00Z', {
      needs_refund: true,
      refunds: [refund(50_000, 'completed'), refund(50_000, 'failed')],
    }),
    payment('UKL3AB12CE', '2026-11-24T08:00:00Z'),
    payment('', '', { status: 'failed', receipt: null, completed_at: null }),
  ];
  const cells = [
    'Received (KES)',
    'M-PESA receipt',
    'Refunded (KES)',
    'Refunded (Nairobi time)',
    'Receipt of the refund',
  ];
  expect(cells.map((title) => cell(title, { payments }))).toEqual([
    1000,
    'UKL3AB12CE; UKL3AB12CF',
    500,
    '2026-11-25 12:00',
    'UKN3AB12CF',
  ]);
  expect(cells.map((title) => cell(title, {}))).toEqual([null, '', null, null, '']);
});

test('the file tells money from credit, and has what went back in part and what is owed', () => {
  const note = (kind: 'credit' | 'returned' | 'used', amount_cents: number, is_part_refund = false) => ({
    kind,
    amount_cents,
    is_part_refund,
    noted_at: '2026-11-25T09:00:00Z',
    receipt: is_part_refund ? 'UKN3AB12CG' : null,
  });
  const payments = [
    payment('UKL3AB12CE', '2026-11-24T08:00:00Z', {
      change_notes: [note('credit', 30_000), note('used', 10_000), note('returned', 5000, true)],
    }),
    payment('', '2026-11-24T08:00:00Z', { receipt: null, method: 'credit', charge_cents: 19_000 }),
  ];
  const cells = [
    'Received (KES)',
    'Paid from credit (KES)',
    'Owed to the customer (KES)',
    'Refunded (KES)',
    'Receipt of the refund',
  ];
  expect(cells.map((title) => cell(title, { payments }))).toEqual([500, 190, 200, 50, 'UKN3AB12CG']);
});
