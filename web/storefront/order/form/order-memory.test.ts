import { beforeEach, expect, test } from 'vitest';
import type { DeviceStorage } from '../../../lib/browser/browser-storage.ts';
import { emptyForm } from '../../../lib/orders/order-contents.ts';

import {
  fillFormFromOrder,
  forgetCustomer,
  forgetDetails,
  forgetOrderKey,
  knowsCustomer,
  orderKey,
  rememberCustomer,
  startingForm,
  storeDiscount,
  storeDrinks,
  storedDiscount,
  storedDrinks,
  storeForm,
  storePlacedForm,
} from './order-memory.ts';

function memory(): DeviceStorage & { stored: Map<string, string> } {
  const stored = new Map<string, string>();
  return {
    stored,
    getItem: (key) => stored.get(key) ?? null,
    setItem: (key, value) => void stored.set(key, value),
    removeItem: (key) => void stored.delete(key),
  };
}

let tab: ReturnType<typeof memory>;
let device: ReturnType<typeof memory>;
beforeEach(() => {
  tab = memory();
  device = memory();
});

const form = {
  name: 'Amina Otieno',
  email: 'amina@example.com',
  phone: '0712345678',
  location: 'Westlands',
  building: 'Sarit',
  unit: '4B',
  notes: 'Blue gate',
  areaId: '',
  mapPoint: '',
};

test('the same content has the same key until the order is placed', () => {
  const key = orderKey(tab, 'one mango');
  expect(key).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(orderKey(tab, 'one mango')).toBe(key);
  forgetOrderKey(tab, 'one mango');
  expect(orderKey(tab, 'one mango')).not.toBe(key);
});

test('changed content has a new key, and the old content its old key', () => {
  const one = orderKey(tab, 'one mango');
  expect(orderKey(tab, 'two mangos')).not.toBe(one);
  expect(orderKey(tab, 'one mango')).toBe(one);
});

test('stores only a few attempts', () => {
  for (let count = 0; count < 20; count += 1) orderKey(tab, `${count} mangos`);
  expect(JSON.parse([...tab.stored.values()][0] ?? '')).toHaveLength(5);
});

test('a form starts with the text typed in the tab, else the stored customer, else empty', () => {
  expect(startingForm(tab, device)).toEqual(emptyForm);
  rememberCustomer(device, form);
  expect(startingForm(tab, device)).toEqual(form);
  storeForm(tab, { ...form, unit: '9' });
  expect(startingForm(tab, device).unit).toBe('9');
  storeForm(tab, null);
  expect(startingForm(tab, device)).toEqual(form);
  forgetDetails(device);
  expect(startingForm(tab, device)).toEqual(emptyForm);
});

test('a new order is filled in from an earlier order of the tab', () => {
  storePlacedForm(tab, 'order-1', form);
  storePlacedForm(tab, 'order-2', { ...form, unit: '9' });
  fillFormFromOrder(tab, 'order-3');
  expect(startingForm(tab, device)).toEqual(emptyForm);
  fillFormFromOrder(tab, 'order-1');
  expect(startingForm(tab, device)).toEqual(form);
});

test('deleting the stored customer leaves no data', () => {
  rememberCustomer(device, form);
  storePlacedForm(tab, 'order-1', form);
  storeForm(tab, form);
  orderKey(tab, JSON.stringify(form));
  expect(knowsCustomer(device)).toBe(true);
  forgetCustomer(tab, device);
  expect([knowsCustomer(device), tab.stored.size, device.stored.size]).toEqual([false, 0, 0]);
});

test('unreadable or missing storage counts as empty', () => {
  device.stored.set('jani.customer', '{"name": 5, "phone": "0712345678"');
  tab.stored.set('jani.order-attempts', '[1, null, {"content": "one mango"}]');
  expect(startingForm(tab, device)).toEqual(emptyForm);
  expect(orderKey(tab, 'one mango', () => 'drawn')).toBe('drawn');
  expect(orderKey(null, 'one mango', () => 'drawn')).toBe('drawn');
});

test('stores the drinks of an order of several in the tab, until it is placed', () => {
  const product = {
    id: 'a0000000-0000-4000-8000-000000000001',
    slug: 'mango-can',
    name: 'Mango',
    price: 95_000,
    image_url: null,
    stock_quantity: 9,
    category: null,
    brand: null,
  };
  const drinks = { lines: [{ product, quantity: 2 }], missing: ['Ginger'] };
  expect(storedDrinks(tab)).toEqual({ lines: [], missing: [] });
  storeDrinks(tab, drinks);
  expect(storedDrinks(tab)).toEqual(drinks);
  storeDrinks(tab, null);
  expect(storedDrinks(tab)).toEqual({ lines: [], missing: [] });
  tab.stored.set('jani.order-drinks', '{"lines": "none", "missing": [1]}');
  expect(storedDrinks(tab)).toEqual({ lines: [], missing: [] });
  expect(storedDrinks(null)).toEqual({ lines: [], missing: [] });
});

test('a discount code stays in the tab until the order is placed, and "Order again" has none', () => {
  // None was entered: that of a link may apply.
  expect(storedDiscount(tab)).toBeNull();
  storeDiscount(tab, { code: 'JANI10', terms: null });
  expect(storedDiscount(tab)).toEqual({ code: 'JANI10', terms: null });
  fillFormFromOrder(tab, 'another order');
  expect(storedDiscount(tab)?.code).toBe('');
  tab.setItem('jani.order-discount', '{"code": 7}');
  expect(storedDiscount(tab)).toBeNull();
});
