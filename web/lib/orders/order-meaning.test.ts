import { describe, expect, test } from 'vitest';
import { cancelledFacts, describeOrder, type OrderFacts, totalLines } from './order-meaning.ts';

const now = Date.parse('2026-11-22T01:00:00Z');
const placed: OrderFacts = {
  ...cancelledFacts,
  status: 'pending',
  total: 92_100,
  reservedUntil: '2026-11-22T01:13:00Z',
  expiresAt: '2026-11-22T01:13:00Z',
};
const meaningOf = (change: Partial<OrderFacts>) => describeOrder({ ...placed, ...change }, now);
const isPaid = { paymentStatus: 'paid', paid: 92_100, reservedUntil: null, expiresAt: null } as const;
const isOver = { status: 'cancelled', reservedUntil: null, expiresAt: null } as const;

test.each<[string, Partial<OrderFacts>, string, string]>([
  ['reserved', {}, 'unpaid', 'Not paid yet: KSh 921.00, reserved until 04:13.'],
  ['without units', { reservedUntil: null }, 'unpaid', 'Not paid yet: KSh 921.00. Please pay by 04:13.'],
  [
    'past its deadline',
    { reservedUntil: '2026-11-22T00:59:00Z', expiresAt: null },
    'unpaid',
    'Not paid yet: KSh 921.00.',
  ],
  ['old, without proof', { total: null, reservedUntil: null, expiresAt: null }, 'unpaid', 'Not paid yet.'],
  ['prompted', { paymentCheck: 'prompted' }, 'paying', 'Waiting for M-PESA to confirm KSh 921.00.'],
  [
    'unresolved',
    { paymentCheck: 'unresolved' },
    'unpaid',
    'Not paid yet: KSh 921.00, as far as M-PESA has told us.',
  ],
  [
    'partly paid',
    { partPaid: 50_000 },
    'unpaid',
    'Not paid yet: KSh 921.00. KSh 500.00 has reached us so far.',
  ],
  ['begun unpaid', { status: 'processing' }, 'unpaid', 'Not paid yet: KSh 921.00.'],
  [
    'paid at the door',
    { status: 'processing', paysCash: true },
    'unpaid',
    'Not paid yet: KSh 921.00, in cash at the door.',
  ],
  [
    'on its way, paid at the door',
    { status: 'out_for_delivery', paysCash: true },
    'unpaid',
    'On its way to you. Not paid yet: KSh 921.00, in cash at the door.',
  ],
  [
    'shipped unpaid',
    { status: 'out_for_delivery' },
    'unpaid',
    'On its way to you. Not paid yet: KSh 921.00.',
  ],
  ['delivered unpaid', { status: 'delivered' }, 'unpaid', 'Delivered. Not paid yet: KSh 921.00.'],
  [
    'in review',
    { paymentCheck: 'review' },
    'checking',
    "We are checking your payment. Please don't pay again.",
  ],
  [
    'being refunded',
    { paymentCheck: 'goes_back' },
    'checking',
    "Your payment is being sent back. Please don't pay again until you hear from us.",
  ],
  ['paid', { ...isPaid, status: 'processing' }, 'preparing', "Paid. We're preparing your drinks."],
  ['paid, placed', { ...isPaid }, 'preparing', "Paid. We're preparing your drinks."],
  ['shipped', { ...isPaid, status: 'out_for_delivery' }, 'on_its_way', 'Paid, and on its way to you.'],
  ['delivered', { ...isPaid, status: 'delivered' }, 'delivered', 'Delivered and paid.'],
  [
    'on hold',
    { ...isPaid, paymentStatus: 'needs_review' },
    'on_hold',
    "Payment received, order on hold. We'll call you.",
  ],
  [
    'expired',
    { ...isOver, cancelledBecause: 'not_paid_in_time' },
    'cancelled',
    "Cancelled: it wasn't paid in time.",
  ],
  ['cancelled by staff', { ...isOver, cancelledBecause: 'by_shop' }, 'cancelled', 'Cancelled by our team.'],
  [
    'cancelled by its customer',
    { ...isOver, cancelledBecause: 'by_customer' },
    'cancelled',
    'You cancelled this order.',
  ],
  ['cancelled', isOver, 'cancelled', 'Cancelled.'],
  [
    'paid, and its customer asked to cancel it',
    { ...isPaid, status: 'processing', isCancelRequested: true },
    'cancelling',
    'You asked to cancel. Our team answers soon.',
  ],
  [
    'cancelled as its customer asked',
    { ...isPaid, ...isOver, cancelledBecause: 'by_customer' },
    'cancelled',
    "Cancelled as you asked. We'll send KSh 921.00 back.",
  ],
  [
    'cancelled after payment',
    { ...isPaid, ...isOver },
    'cancelled',
    "Cancelled after you paid. We'll refund you or give you a call.",
  ],
  [
    'cancelled with a pending refund',
    { ...isPaid, ...isOver, isRefunding: true },
    'refunding',
    "Cancelled. We're sending KSh 921.00 back.",
  ],
  [
    'delivered with a pending refund',
    { ...isPaid, status: 'delivered', isRefunding: true },
    'refunding',
    "We're sending KSh 921.00 back.",
  ],
  [
    'refunded',
    { ...isPaid, ...isOver, paymentStatus: 'refunded' },
    'refunded',
    'Cancelled. KSh 921.00 was sent back.',
  ],
])('an order that is %s', (_, change, kind, summary) => {
  expect(meaningOf(change)).toMatchObject({ kind, summary });
});

test('money after the customer cancelled is explained, and why staff do not cancel', () => {
  expect(
    meaningOf({ ...isPaid, ...isOver, paymentStatus: 'needs_review', cancelledBecause: 'by_customer' }).text,
  ).toMatch(/^Your KSh 921\.00 reached us after you had cancelled the order\./);
  expect(meaningOf({ ...isPaid, status: 'processing', cancelAnswer: 'It is packed' }).text).toContain(
    "You asked to cancel it, and we can't: “It is packed”",
  );
});

describe('what the customer can do', () => {
  test.each<[string, Partial<OrderFacts>, { canPay: boolean; canOrderAgain: boolean; hasReceipt: boolean }]>([
    ['unpaid', {}, { canPay: true, canOrderAgain: false, hasReceipt: false }],
    ['prompted', { paymentCheck: 'prompted' }, { canPay: true, canOrderAgain: false, hasReceipt: false }],
    ['delivered unpaid', { status: 'delivered' }, { canPay: true, canOrderAgain: false, hasReceipt: false }],
    ['in review', { paymentCheck: 'review' }, { canPay: false, canOrderAgain: false, hasReceipt: false }],
    ['paid', isPaid, { canPay: false, canOrderAgain: false, hasReceipt: true }],
    [
      'delivered',
      { ...isPaid, status: 'delivered' },
      { canPay: false, canOrderAgain: true, hasReceipt: true },
    ],
    ['cancelled', isOver, { canPay: false, canOrderAgain: true, hasReceipt: false }],
    [
      'refunded',
      { ...isPaid, paymentStatus: 'refunded' },
      { canPay: false, canOrderAgain: true, hasReceipt: true },
    ],
  ])('%s', (_, change, expected) => expect(meaningOf(change)).toMatchObject(expected));
});

test.each<[boolean, string, Partial<OrderFacts>]>([
  [true, 'unpaid and reserved', {}],
  [false, 'past its reservation', { reservedUntil: '2026-11-22T00:59:00Z' }],
  [false, 'without a reservation', { reservedUntil: null }],
  [false, 'cancelled before its reservation ends', { status: 'cancelled' }],
])('holds units: %s for an order that is %s', (expected, _, change) => {
  expect(meaningOf(change).holdsUnits).toBe(expected);
});

test('shows the charge in whole shillings after payment', () => {
  const odd = { total: 100_050 };
  expect(meaningOf(odd).title).toBe('Payment due: KSh 1,001.00');
  expect(meaningOf({ ...odd, ...isPaid, paid: 100_100 }).text).toBe('We received KSh 1,001.00. Asante!');
  // Without proof the charge is calculated from the total.
  expect(meaningOf({ ...odd, ...isPaid, paid: null }).text).toBe('We received KSh 1,001.00. Asante!');
  expect(meaningOf({ ...odd, ...isPaid, paid: 150_000 }).text).toBe('We received KSh 1,500.00. Asante!');
  expect(meaningOf({ ...isPaid, total: null, paid: null }).text).toBe('We received your payment. Asante!');
  expect(meaningOf({ ...odd, ...isPaid, paid: null, isRefunding: true }).text).toBe(
    "We're sending KSh 1,001.00 back to the phone that paid.",
  );
});

test('shows whether the amount or the stock is the reason for a hold', () => {
  const held = { ...isPaid, paymentStatus: 'needs_review' } as const;
  expect(meaningOf(held).text).toMatch(/^Your KSh 921\.00 reached us, but your drinks were sold/);
  expect(meaningOf({ ...held, paid: 142_100 }).text).toMatch(
    /^Your KSh 1,421\.00 reached us, but your order comes to KSh 921\.00\./,
  );
  expect(meaningOf({ ...held, paid: null }).text).toMatch(/^Your money reached us/);
});

test('the receipt of a cancelled order says so', () => {
  const labelOf = (change: Partial<OrderFacts>) => meaningOf({ ...isPaid, ...change }).paymentLabel;
  expect(labelOf({ status: 'processing' })).toEqual({ colour: 'green', text: 'Paid' });
  expect(labelOf(isOver)).toEqual({ colour: 'yellow', text: 'Paid, then cancelled' });
  expect(labelOf({ ...isOver, isRefunding: true }).text).toBe('Paid, being sent back');
  expect(labelOf({ ...isOver, paymentStatus: 'refunded' }).text).toBe('Refunded');
});

test('announces the refund of a second payment', () => {
  expect(meaningOf({ ...isPaid, surplus: 92_100 }).text).toBe(
    'We received KSh 921.00. Asante! Another KSh 921.00 came for this order: it goes back to the phone that paid.',
  );
});

test('says which part of the money of an order paid in parts was sent back', () => {
  const partly = { ...isPaid, status: 'cancelled', paid: 92_100, refunded: 40_000 } as const;
  expect(meaningOf(partly).text).toBe(
    "We received KSh 921.00 for this order. KSh 400.00 was sent back already. We'll refund you the rest or give you a call.",
  );
  expect(meaningOf({ ...partly, isRefunding: true }).text).toBe(
    "We're sending KSh 521.00 back to the phone that paid. KSh 400.00 was sent back already.",
  );
  expect(meaningOf({ ...partly, paymentStatus: 'refunded', refunded: 92_100 }).text).toBe(
    'KSh 921.00 was sent back to you by M-PESA.',
  );
});

test('never calls a shipped order reserved', () => {
  for (const status of ['processing', 'out_for_delivery', 'delivered'] as const) {
    const { title, text, summary } = meaningOf({ status });
    expect(`${title} ${text} ${summary}`).not.toMatch(/reserved|fridge|sold to someone/);
  }
});

test('explains what happens to the payment of a cancelled order', () => {
  expect(meaningOf(isOver)).toMatchObject({ title: 'Nothing to pay' });
  expect(meaningOf({ ...isOver, partPaid: 5000 }).text).toContain('KSh 50.00 reached us for it');
  for (const paymentCheck of ['review', 'goes_back', 'prompted', 'unresolved'] as const) {
    expect(meaningOf({ ...isOver, paymentCheck })).toMatchObject({
      kind: 'cancelled',
      title: 'Order cancelled',
    });
  }
});

test.each<[Partial<OrderFacts>, ReturnType<typeof totalLines>]>([
  [{}, { total: 92_100, rounding: 50, paid: null }],
  [{ total: 92_100 }, { total: 92_100, rounding: 0, paid: null }],
  [{ paid: 92_100 }, { total: 92_100, rounding: 50, paid: null }],
  [
    { paymentStatus: 'needs_review', paid: 120_000 },
    { total: 92_100, rounding: 50, paid: 120_000 },
  ],
  [{ paymentStatus: 'refunded' }, { total: 92_100, rounding: 50, paid: null }],
  [{ paymentStatus: 'unpaid' }, { total: 92_050, rounding: 0, paid: null }],
  [{ total: null }, { total: null, rounding: 0, paid: null }],
])('after a payment the total is the charge: %j', (change, lines) =>
  expect(totalLines({ paymentStatus: 'paid', total: 92_050, paid: null, ...change })).toEqual(lines),
);
