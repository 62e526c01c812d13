import { expect, test } from 'vitest';
import type { Json, OrderEventActor, OrderEventKind } from '../../../../supabase/types.ts';
import { formatDate } from '../../ui/time/dates.ts';
import { describeActor, describeEvent, plainFailure } from './order-event-texts.ts';

test.each<[kind: OrderEventKind, details: Json, what: string, more: string | undefined]>([
  ['order_placed', { total_amount: 95_100 }, 'Order placed', 'KES 951'],
  ['order_placed', { total_amount: 95_050 }, 'Order placed', 'KES 951'],
  [
    'order_placed',
    { total_amount: 95_100, holds_no_units: true },
    'Order placed',
    'KES 951 · Holds no units before its M-PESA prompt',
  ],
  [
    'order_placed',
    { total_amount: 95_100, source: 'call' },
    'Entered by njeri@jani.example · call',
    'KES 951',
  ],
  ['order_placed', { source: 'whatsapp' }, 'Entered by njeri@jani.example · WhatsApp', undefined],
  ['pay_link_shown', {}, 'Pay link shown to staff', undefined],
  [
    'delivery_agreed',
    { fee_cents: 60_000, total_cents: 155_000, day: '2026-12-01' },
    'Delivery agreed',
    `${formatDate('2026-12-01T12:00:00+03:00')} · fee KES 600 · KES 1,550 in all`,
  ],
  [
    'items_changed',
    { from_cents: 95_050, to_cents: 125_100 },
    'The customer changed the drinks',
    'KES 951 → KES 1,251',
  ],
  ['status_changed', { from: 'pending', to: 'shipped' }, 'Status set to Shipped', 'From Pending'],
  [
    'status_changed',
    { from: 'processing', to: 'out_for_delivery', reason: 'delivery' },
    'Status set to Out For Delivery',
    'From Processing · Along with its delivery',
  ],
  ['status_changed', { to: 'delivered' }, 'Status set to Delivered', undefined],
  [
    'payment_completed',
    { charge_cents: 95_100, phone: '+254712345678', receipt: 'UKL1' },
    'Payment received',
    'KES 951 · 0712 345 678 · Receipt UKL1',
  ],
  [
    'payment_failed',
    { result_code: '1032', phone: '+254712345678' },
    'Payment failed',
    'Payment was cancelled. Please try again. · Code 1032 · 0712 345 678',
  ],
  [
    'payment_failed',
    { result_code: '0', result_description: 'M-PESA reported 95000 cents, 95100 were charged' },
    'Payment was reviewed',
    'M-PESA reported KES 950, KES 951 was charged',
  ],
  [
    'payment_in_review',
    { result_description: 'M-PESA reported no cents, 95100 were charged' },
    'Payment needs review',
    'M-PESA reported no amount, KES 951 was charged',
  ],
  [
    'delivery_assigned',
    { person: 'Njeri', phone: '+254722000111', vehicle: 'Van', instead_of: 'Otieno' },
    'Delivery assigned to Njeri',
    '0722 000 111 · Van · Instead of Otieno',
  ],
])('describes %s with %j', (kind, details, what, more) => {
  const described = describeEvent({ kind, details, actor_email: 'njeri@jani.example' });
  expect(described.what).toBe(what);
  expect(described.more || undefined).toBe(more);
});

test('an event of a newer shop is shown in words', () => {
  expect(describeEvent({ kind: 'something_new' as never, details: {} }).what).toBe('Something New');
});

test('marks a second payment, and a payment for sold units, as bad', () => {
  expect(describeEvent({ kind: 'payment_completed', details: { needs_refund: true } }).tone).toBe('bad');
  expect(describeEvent({ kind: 'payment_status_changed', details: { to: 'needs_review' } })).toMatchObject({
    what: expect.stringContaining('needs review'),
    tone: 'bad',
  });
});

test('names staff by email, and other actors by role', () => {
  const by = (actor: OrderEventActor, actor_email: string | null = null) =>
    describeActor({ actor, actor_email });
  expect(by('staff', 'w@jani.example')).toBe('w@jani.example');
  expect([by('customer'), by('mpesa'), by('shop')]).toEqual(['Customer', 'M-PESA', 'The shop itself']);
});

test.each(['1', '1001', '1019', '1025', '1032', '1037', '2001', 'unknown', null])(
  'describes failure %s without an emoji',
  (code) => {
    expect(plainFailure(code)).toMatch(/^[\p{Letter}\p{Number} .,&-]+\.$/u);
  },
);
