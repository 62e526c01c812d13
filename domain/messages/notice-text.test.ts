import { expect, test } from 'vitest';
import { describeNotice, type NoticeFacts } from './notice-text.ts';

const order: NoticeFacts = {
  order_number: 'ORD-7',
  name: 'Wanjiku Kamau',
  shipping_address: 'Westlands, Building: Mpaka Plaza, Unit: 4',
  city: 'Nairobi',
  items: [
    { quantity: 2, product_name: 'Meru Gold Coconut Lime', brand: 'Meru Gold' },
    { quantity: 1, product_name: 'Mango', brand: null },
  ],
  failure_reason: 'no_answer',
};
const lowOnStock = '/admin/products?stock=low&sort=stock';
const drinks = '2 × Coconut Lime, 1 × Mango · Westlands · ORD-7';

test.each([
  ['paid_order', order, 'New paid order', drinks, '/admin/today/o1'],
  ['late_order', order, 'Order is late', drinks, '/admin/today/o1'],
  ['cancel_request', order, 'A customer asks to cancel', drinks, '/admin/today/o1'],
  ['order_to_agree', order, 'Agree on fee and day', drinks, '/admin/today/o1'],
  ['failed_delivery', order, 'Delivery failed', `Phone not answered · ${drinks}`, '/admin/today/o1'],
  [
    'failed_delivery',
    { ...order, failure_reason: null, city: 'Kiambu' },
    'Delivery failed',
    '2 × Coconut Lime, 1 × Mango · Westlands, Kiambu · ORD-7',
    '/admin/today/o1',
  ],
  [
    'refund_to_approve',
    { refund_cents: 150_100, order_number: 'ORD-7' },
    'A refund waits for your approval',
    'KES 1,501 · ORD-7',
    '/admin/orders?decide=open',
  ],
  [
    'refund_to_approve',
    { refund_cents: 150_100, order_number: null },
    'A refund waits for your approval',
    'KES 1,501',
    '/admin/orders?decide=open',
  ],
  ['inquiry', { name: 'Baraka' }, 'New inquiry', 'Open it to read and answer', '/admin/inquiries?view=e1'],
  ['low_stock', { product_name: 'Mango', units: 9 }, 'Low on stock', 'Mango · 9 left', lowOnStock],
  ['low_stock', { product_name: 'Mango', units: 0 }, 'Low on stock', 'Mango · none left', lowOnStock],
] as const)('says what a notice is about, without names: %s', (kind, facts, title, text, path) => {
  const notice = { kind, event_key: 'e1', order_id: 'o1', facts: facts as NoticeFacts };
  expect(describeNotice(notice)).toEqual({ title, text, path });
});

test('names people only where the panel shows them', () => {
  const named = (kind: 'paid_order' | 'inquiry', facts: NoticeFacts) =>
    describeNotice({ kind, event_key: 'e1', order_id: 'o1', facts }, { withNames: true }).text;
  expect(named('paid_order', order)).toBe(`${drinks} · Wanjiku Kamau`);
  expect(named('inquiry', { name: 'Baraka' })).toBe('From Baraka');
});

test('says as much as it knows of an order that was deleted', () => {
  expect(
    describeNotice({ kind: 'low_stock', event_key: 'e1', order_id: null, facts: null }).text,
    'a product that was deleted',
  ).toBe('');
  expect(describeNotice({ kind: 'paid_order', event_key: 'e1', order_id: 'o1', facts: null })).toEqual({
    title: 'New paid order',
    text: '',
    path: '/admin/today/o1',
  });
});
