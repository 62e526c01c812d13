import { expect, test } from 'vitest';
import { maxDrinks } from '../../../lib/orders/order-contents.ts';

import {
  amountsOf,
  type Draft,
  type Drink,
  formToSend,
  hasAddress,
  isBegun,
  problemOfLine,
  readDraft,
  storeDraft,
  withAddress,
  withCustomer,
  withQuantity,
  withSameAgain,
  withSource,
} from './draft.ts';

function memory() {
  const texts = new Map<string, string>();
  return {
    getItem: (key: string) => texts.get(key) ?? null,
    setItem: (key: string, text: string) => void texts.set(key, text),
    removeItem: (key: string) => void texts.delete(key),
    texts,
  };
}
const empty = (): Draft => readDraft(null, 'njeri');
const drink = (id: string, units_left = 10, price = 50_000): Drink => ({
  id,
  name: `Drink ${id}`,
  brand: null,
  price,
  image_url: null,
  units_left,
});
const wanjiru = {
  name: 'Wanjiru',
  email: '',
  addresses: [
    { address: 'Karen, Building: Yaya, Unit: 4', notes: 'Blue gate' },
    { address: 'Runda', notes: null },
  ],
};

test('a known customer fills in what is empty, and nothing that was typed', () => {
  const begun = { ...empty(), form: { ...empty().form, phone: '0712345678', notes: 'Ring twice' } };
  const filled = withCustomer(begun, '+254712345678', wanjiru);
  expect(filled.form).toEqual({
    name: 'Wanjiru',
    email: '',
    phone: '0712345678',
    location: 'Karen',
    building: 'Yaya',
    unit: '4',
    notes: 'Ring twice',
    areaId: '',
    mapPoint: '',
  });
  expect(filled.filledFor).toBe('+254712345678');
});

test('another customer replaces what the first one filled in, and what was edited since stays', () => {
  const first = withCustomer(empty(), '+254712345678', wanjiru);
  const edited = { ...first, form: { ...first.form, unit: '5' } };
  const other = withCustomer(edited, '+254700000001', null);
  expect(other.form).toMatchObject({ name: '', location: '', building: '', unit: '5', notes: '' });
});

test('another address of the customer replaces the fields', () => {
  const draft = withCustomer(empty(), '+254712345678', wanjiru);
  const [karen, runda] = wanjiru.addresses as [(typeof wanjiru.addresses)[0], (typeof wanjiru.addresses)[0]];
  expect([hasAddress(draft, karen), hasAddress(draft, runda)]).toEqual([true, false]);
  const moved = withAddress(draft, runda);
  expect(moved.form).toMatchObject({ location: 'Runda', building: '', unit: '', notes: '' });
  expect([hasAddress(moved, karen), hasAddress(moved, runda)]).toEqual([false, true]);
});

test('a walk-in collects, a caller does not', () => {
  const walkIn = withSource(empty(), 'walk_in');
  expect(walkIn).toMatchObject({ source: 'walk_in', isCollected: true });
  expect(withSource(walkIn, 'whatsapp')).toMatchObject({ source: 'whatsapp', isCollected: false });
});

test('a collected order sends no address', () => {
  const draft = withCustomer(empty(), '+254712345678', wanjiru);
  expect(formToSend(draft)).toBe(draft.form);
  expect(formToSend({ ...draft, isCollected: true })).toEqual({
    ...draft.form,
    location: '',
    building: '',
    unit: '',
  });
});

test('quantities change, leave at 0, and end at ten drinks', () => {
  let draft = withQuantity(empty(), drink('a'), 1);
  draft = withQuantity(draft, drink('a'), 3);
  expect(draft.lines).toMatchObject([{ productId: 'a', quantity: 3 }]);
  expect(withQuantity(draft, drink('a'), 0).lines).toEqual([]);
  for (let count = 0; count < 20; count++) draft = withQuantity(draft, drink(`n${count}`), 1);
  expect(draft.lines).toHaveLength(maxDrinks);
  expect(withQuantity(draft, drink('a'), 4).lines[0]?.quantity).toBe(4);
});

test('the same again takes what is there', () => {
  const drinks = new Map([
    ['a', drink('a', 1)],
    ['b', drink('b', 0)],
  ]);
  const items = ['a', 'b', 'gone', null].map((product_id) => ({ product_id, quantity: 2 }));
  expect(withSameAgain(empty(), items, drinks).lines).toMatchObject([{ productId: 'a', quantity: 1 }]);
});

test('the total has one fee, none for a collected order, and the prices of now', () => {
  const draft = withQuantity(withQuantity(empty(), drink('a'), 2), drink('b', 5, 30_050), 1);
  const now = new Map([['a', drink('a', 10, 60_000)]]);
  expect(amountsOf(draft, new Map(), 100)).toEqual({ units: 3, fee: 100, discount: 0, total: 130_150 });
  expect(amountsOf(draft, now, 100).total).toBe(150_150);
  expect(amountsOf({ ...draft, isCollected: true }, now, 100)).toEqual({
    units: 3,
    fee: 0,
    discount: 0,
    total: 150_050,
  });
  expect(amountsOf(empty(), now, 100).total).toBe(0);
});

test('a line says why it cannot be ordered', () => {
  const line = { productId: 'a', name: 'Mango', quantity: 3, price: 1 };
  const of = (known: Drink | null) => problemOfLine(line, new Map([['a', known]]));
  // It is read while the drinks that were chosen before are known.
  expect(problemOfLine(line, new Map([['b', drink('b')]]))).toBeNull();
  expect(of(drink('a'))).toBeNull();
  expect(of(drink('a', 2))).toBe('Only 2 left');
  expect(of(drink('a', 0))).toBe('Out of stock');
  expect(of(null)).toBe('Not for sale any more');
});

test('the tab has the draft of its member with the same key; another member does not see it', () => {
  const storage = memory();
  const draft = withQuantity(empty(), drink('a'), 1);
  storeDraft(storage, 'njeri', draft);
  expect(readDraft(storage, 'njeri')).toEqual(draft);
  const other = readDraft(storage, 'otieno');
  expect(isBegun(other)).toBe(false);
  expect(other.key).not.toBe(draft.key);
  expect(storage.texts.size).toBe(0);
});

test('a draft that cannot be read, or was ended, is a new one', () => {
  const storage = memory();
  storage.setItem('jani.staff.new-order', '{');
  expect(isBegun(readDraft(storage, 'njeri'))).toBe(false);
  storeDraft(storage, 'njeri', withQuantity(empty(), drink('a'), 1));
  storeDraft(storage, 'njeri', null);
  expect(isBegun(readDraft(storage, 'njeri'))).toBe(false);
});

test('the total is without the discount of a code, from its minimum on', () => {
  const discount = { code: 'JANI10', percent: 10, amount_cents: null, minimum_cents: 100_000 };
  const draft = { ...withQuantity(empty(), drink('a'), 2), discount };
  expect(amountsOf(draft, new Map(), 100)).toEqual({ units: 2, fee: 100, discount: 10_000, total: 90_100 });
  const less = { ...withQuantity(empty(), drink('a'), 1), discount };
  expect(amountsOf(less, new Map(), 100)).toMatchObject({ discount: 0, total: 50_100 });
});
