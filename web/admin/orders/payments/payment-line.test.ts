import { expect, test } from 'vitest';
import { describePaymentLine, needsDecision, needsLook, type OrderWithMoney } from './payment-line.ts';

type Payment = OrderWithMoney['payments'][number];

const now = Date.parse('2026-11-28T12:00:00Z');
const payment: Payment = {
  status: 'completed',
  charge_cents: 71_100,
  receipt: 'UKL3AB12CD',
  created_at: '2026-11-28T11:01:00Z',
  completed_at: '2026-11-28T11:02:00Z',
  needs_refund: false,
  refunded_at: null,
  refunds: [],
  change_notes: [],
};
const failed: Payment = { ...payment, status: 'failed', receipt: null, completed_at: null };
const order: OrderWithMoney = {
  status: 'processing',
  payment_status: 'paid',
  total_amount: 71_100,
  payments: [payment],
  parts: [],
};
const unpaid: OrderWithMoney = { ...order, status: 'pending', payment_status: 'unpaid', payments: [] };
/** Without what formats of the machine's language differ in: "14:02" and "2:02 PM". */
const lineOf = (given: OrderWithMoney) => {
  const { text, facts } = describePaymentLine(given, now);
  return `${text}: ${facts.replace(/, (?:28 Nov|Nov 28)?,? ?\d+:\d\d(?:\s?[AP]M)?$/i, ', TIME')}`;
};

test.each<[case_: string, order: OrderWithMoney, line: string]>([
  ['a paid order', order, 'Paid: KES 711, UKL3AB12CD, TIME'],
  [
    'a payment without its receipt yet',
    { ...order, payments: [{ ...payment, receipt: null }] },
    'Paid: KES 711, TIME',
  ],
  [
    'an order paid in parts',
    {
      ...order,
      payments: [
        { ...payment, charge_cents: 50_000 },
        { ...payment, charge_cents: 21_100 },
      ],
    },
    'Paid: KES 711, 2 payments, TIME',
  ],
  [
    'a second payment, which does not count',
    { ...order, payments: [{ ...payment, needs_refund: true, receipt: 'UKL3XXXXXX' }, payment, failed] },
    'Paid: KES 711, UKL3AB12CD, TIME',
  ],
  ['an order that was paid without a recorded payment', { ...order, payments: [] }, 'Paid: KES 711'],
  [
    'an order that needs review',
    { ...order, payment_status: 'needs_review' },
    'Needs review: KES 711, UKL3AB12CD, TIME',
  ],
  [
    'a refunded order',
    { ...order, payment_status: 'refunded', payments: [{ ...payment, refunded_at: '2026-11-28T11:30:00Z' }] },
    'Refunded: KES 711 went back, TIME',
  ],
  [
    'an order of which a part went back',
    {
      ...order,
      status: 'cancelled',
      payments: [
        { ...payment, charge_cents: 50_000, refunded_at: '2026-11-28T11:30:00Z' },
        { ...payment, charge_cents: 21_100 },
      ],
    },
    'Partly refunded: KES 500 of KES 711 went back, TIME',
  ],
  [
    'a cancelled order whose refund is due',
    { ...order, status: 'cancelled' },
    'Paid: KES 711, UKL3AB12CD, TIME',
  ],
  ['an order that no one has tried to pay', unpaid, 'Unpaid: KES 711, not tried yet'],
  ['one failed attempt', { ...unpaid, payments: [failed] }, 'Unpaid: KES 711, one try failed'],
  [
    'three failed attempts',
    { ...unpaid, payments: [failed, failed, failed] },
    'Unpaid: KES 711, 3 tries failed',
  ],
  [
    'a prompt on the phone after a failed attempt',
    { ...unpaid, payments: [{ ...failed, status: 'processing' }, failed] },
    'Unpaid: KES 711, waiting for the PIN',
  ],
  [
    'an answer that never came',
    { ...unpaid, payments: [{ ...failed, status: 'unresolved' }] },
    'Unpaid: KES 711, M-PESA has not answered',
  ],
  [
    'another amount than the charge',
    { ...unpaid, payments: [{ ...failed, status: 'review' }] },
    'Needs review: KES 711',
  ],
  [
    'a part of the charge',
    { ...unpaid, parts: [{ received_cents: 47_000, payment_id: null, resolution: null }] },
    'Unpaid: KES 711, KES 470 of it came',
  ],
])('says %s in one line', (_, given, line) => {
  expect(lineOf(given)).toBe(line);
});

test('shows the date of a payment of another day', () => {
  expect(describePaymentLine(order, Date.parse('2026-11-30T12:00:00Z')).facts).toMatch(/28/);
});

const refund = (status: string, more: object = {}) =>
  ({
    status,
    created_at: '2026-11-28T11:30:00Z',
    sent_twice_at: null,
    sent_twice_seen_at: null,
    ...more,
  }) as never;
const note = (kind: string) => ({ kind, amount_cents: 100 }) as never;

test.each<[case_: string, payment: Partial<Payment>, needs: boolean]>([
  ['a completed payment', {}, false],
  ['a failed attempt', { status: 'failed' }, false],
  ['a prompt that waits for the PIN', { status: 'processing' }, false],
  ['a payment in review', { status: 'review' }, true],
  ['a payment without an answer', { status: 'unresolved' }, true],
  ['a second payment to send back', { needs_refund: true }, true],
  ['a second payment that went back', { needs_refund: true, refunded_at: '2026-11-28T11:30:00Z' }, false],
  ['a refund that waits for approval', { refunds: [refund('requested')] }, true],
  ['a refund that failed', { refunds: [refund('failed')] }, true],
  ['a refund that was withdrawn', { refunds: [refund('withdrawn')] }, false],
  ['a completed refund', { refunds: [refund('completed')] }, false],
  [
    'a refund that was sent twice',
    { refunds: [refund('completed', { sent_twice_at: '2026-11-28T11:40:00Z' })] },
    true,
  ],
  ['change that is owed', { change_notes: [note('credit')] }, true],
  ['change that was sent back', { change_notes: [note('credit'), note('returned')] }, false],
])('decides whether %s needs a look', (_, change, needs) => {
  expect(needsLook({ ...payment, ...change })).toBe(needs);
});

test('an order needs a decision while one of its payments needs a look, or a part of its charge is open', () => {
  const part = { received_cents: 47_000, payment_id: null, resolution: null };
  expect(needsDecision(order)).toBe(false);
  expect(needsDecision({ ...order, payments: [{ ...payment, needs_refund: true }, payment] })).toBe(true);
  expect(needsDecision({ ...unpaid, parts: [part] })).toBe(true);
  expect(needsDecision({ ...unpaid, parts: [{ ...part, payment_id: 'a payment' }] })).toBe(false);
});
