import { expect, test } from 'vitest';
import { describeOrder, type OrderFacts } from '../../lib/orders/order-meaning.ts';
import type { RememberedOrder } from '../../lib/orders/remembered-orders.ts';
import type { OwnOrder } from '../own-orders/order-states.ts';
import { ordersToShow } from './last-order.tsx';

const facts: OrderFacts = {
  status: 'pending',
  paymentStatus: 'unpaid',
  paymentCheck: null,
  isRefunding: false,
  cancelledBecause: null,
  isCancelRequested: false,
  cancelAnswer: null,
  wayToCancel: null,
  total: 95_100,
  paid: null,
  refunded: null,
  partPaid: null,
  surplus: null,
  partRefunded: null,
  credit: null,
  awaitsAgreement: false,
  paysCash: false,
  paysCredit: false,
  reservedUntil: null,
  expiresAt: null,
  arrivesBy: null,
};
const own = (orderId: string, change: Partial<OrderFacts> | null): OwnOrder => ({
  order: { orderId } as RememberedOrder,
  meaning: change && describeOrder({ ...facts, ...change }, 0),
});
const paid = { status: 'processing', paymentStatus: 'paid' } as const;
const delivered = { status: 'delivered', paymentStatus: 'paid' } as const;
const cancelled = { status: 'cancelled' } as const;
const shown = (...orders: OwnOrder[]) => ordersToShow(orders, 'answered').map(({ order }) => order.orderId);

test('shows every order under way, newest first', () => {
  expect(
    shown(own('paid', paid), own('due', {}), own('on its way', { ...paid, status: 'out_for_delivery' })),
  ).toEqual(['paid', 'due', 'on its way']);
  expect(
    shown(own('paid', paid), own('delivered', delivered), own('refunding', { ...paid, isRefunding: true })),
  ).toEqual(['paid', 'refunding']);
});

test('shows the last order where none is under way or its state is unknown', () => {
  expect(shown(own('delivered', delivered), own('cancelled', cancelled))).toEqual(['delivered']);
  expect(shown(own('unknown', null), own('older', null))).toEqual(['unknown']);
  expect(shown()).toEqual([]);
});

test('without an answer shows the orders that were under way', () => {
  const over = { order: { orderId: 'over', isOver: true } as RememberedOrder, meaning: null };
  const orders = [over, own('newer', null), own('older', null)];
  for (const answer of ['offline', 'failed'] as const) {
    expect(ordersToShow(orders, answer).map(({ order }) => order.orderId)).toEqual(['newer', 'older']);
  }
  expect(ordersToShow(orders, 'waiting').map(({ order }) => order.orderId)).toEqual(['over']);
});
