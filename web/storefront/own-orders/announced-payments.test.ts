import { expect, test } from 'vitest';
import type { DeviceStorage } from '../../lib/browser/browser-storage.ts';
import type { RememberedOrder } from '../../lib/orders/remembered-orders.ts';
import { announcedPayments, paymentsToFollow, shownPayments } from './announced-payments.ts';

function memory(): DeviceStorage {
  const stored = new Map<string, string>();
  return {
    getItem: (key) => stored.get(key) ?? null,
    setItem: (key, value) => void stored.set(key, value),
    removeItem: (key) => void stored.delete(key),
  };
}
const order = (paymentReference: string | null) =>
  ({ paymentReference, orderId: 'order-1', trackingNumber: 'JJ-20261121-1001' }) as RememberedOrder;
const idsOf = (payments: { paymentReference: string }[]) =>
  payments.map((payment) => payment.paymentReference);

test('each tab reports a payment once, also after a reload and when another tab has removed the prompt', () => {
  const [one, other] = [memory(), memory()];
  for (const tab of [one, other]) expect(idsOf(paymentsToFollow([order('ws_1')], tab))).toEqual(['ws_1']);
  expect(announcedPayments.add('ws_1', one)).toBe(true);
  expect(announcedPayments.add('ws_1', one)).toBe(false);
  expect(paymentsToFollow([order('ws_1')], one)).toEqual([]);
  expect(idsOf(paymentsToFollow([order(null)], other))).toEqual(['ws_1']);
  expect(announcedPayments.add('ws_1', other)).toBe(true);
});

test('the next attempt of an order is followed again', () => {
  const tab = memory();
  paymentsToFollow([order('ws_1')], tab);
  announcedPayments.add('ws_1', tab);
  expect(idsOf(paymentsToFollow([order('ws_2')], tab))).toEqual(['ws_2']);
});

test('an order counts as shown until the last dialog about it ends', () => {
  const [end, endOther] = [shownPayments.show('order-9'), shownPayments.show('order-9')];
  end();
  expect(shownPayments.has('order-9')).toBe(true);
  endOther();
  expect(shownPayments.has('order-9')).toBe(false);
});

test('unreadable storage counts as empty', () => {
  const tab = memory();
  for (const stored of ['', 'no json', '{}', '[null, 1, {"paymentReference": 5}]']) {
    tab.setItem('jani.payments', stored);
    expect(paymentsToFollow([], tab).filter(({ paymentReference }) => paymentReference !== 'ws_2')).toEqual(
      [],
    );
  }
});
