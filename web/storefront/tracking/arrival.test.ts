import { expect, test } from 'vitest';
import { describeOrderArrival } from './arrival.ts';

const now = Date.parse('2026-11-28T21:30:00+03:00');
const at = (time: string) => `2026-11-28T${time}:00+03:00`;
type Order = Parameters<typeof describeOrderArrival>[0];
const paid: Order = {
  status: 'processing',
  paymentStatus: 'paid',
  promise: { first: at('22:14'), again: null, atDoor: null },
  steps: { paidAt: at('21:14'), pickedUpAt: null, deliveredAt: null },
  details: null,
};
const onItsWay = { ...paid, status: 'out_for_delivery' } as const;
const withPromise = (promise: Partial<Order['promise']>) => ({ ...paid.promise, ...promise });
const onDay = (deliveryDay: string) => ({ deliveryDay });

test.each<[string, Order, string | null, string | null]>([
  ['paid', paid, 'Arrives by 22:14', null],
  ['of an agreed day', { ...paid, details: onDay('2026-12-01') }, 'Arrives on 1 December 2026', null],
  [
    'delayed, with a new time',
    { ...paid, promise: withPromise({ first: at('21:14'), again: at('21:50') }) },
    'Arrives by 21:50',
    'Sorry, it takes longer than we promised (21:14).',
  ],
  [
    'late, before the customer was informed',
    { ...paid, promise: withPromise({ first: at('21:29') }) },
    'A little late, sorry',
    'We promised 21:29, and are on it.',
  ],
  ['on its way, without a learned time', onItsWay, 'Arrives by 22:14', null],
  [
    'on its way',
    { ...onItsWay, promise: withPromise({ atDoor: at('21:42') }) },
    'About 12 minutes',
    'On its way, and arrives by 22:14.',
  ],
  [
    'on its way, and about to arrive',
    { ...onItsWay, promise: withPromise({ atDoor: at('21:20') }) },
    'Any minute now',
    'On its way, and arrives by 22:14.',
  ],
  [
    'on its way, and late',
    { ...onItsWay, promise: withPromise({ first: at('21:14'), atDoor: at('21:42') }) },
    'About 12 minutes',
    'On its way to you.',
  ],
  [
    'delivered',
    { ...paid, status: 'delivered', steps: { ...paid.steps, deliveredAt: at('21:25') } },
    'Delivered at 21:25',
    null,
  ],
  ['delivered before times were noted', { ...paid, status: 'delivered' }, null, null],
  ['not paid', { ...paid, promise: withPromise({ first: null }) }, null, null],
  ['cancelled', { ...paid, status: 'cancelled' }, null, null],
  ['refunded', { ...paid, paymentStatus: 'refunded' }, null, null],
])('describes the arrival of an order that is %s', (_, order, title, text) => {
  const arrival = describeOrderArrival(order, now);
  expect(arrival?.title ?? null).toBe(title);
  expect(arrival?.text ?? null).toBe(text);
});
