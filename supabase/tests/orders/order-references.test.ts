// Texts that name an order: the database reads them as domain/orders/tracking-number.ts does, for payments, customers and staff.
import { testDatabases } from '@jani-juice/backend/testing';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { orderNumberExamples } from '../../../domain/orders/order-number-examples.ts';
import { accountReference, readOrderNumbers } from '../../../domain/orders/tracking-number.ts';
import { expectRefusal, makeProduct, type PlacedOrder } from '../shop-database.ts';
import { setUpShop } from '../steps.ts';

interface Order extends PlacedOrder {
  order_number: string;
}

/** Spellings of an order's numbers, as payers, customers and staff write them. */
const spellings: Record<string, (order: Order) => string> = {
  'its tracking number': ({ tracking_number }) => tracking_number,
  'the reference of the prompt': ({ tracking_number }) => accountReference(tracking_number),
  'a reference with a name': ({ tracking_number }) => `${accountReference(tracking_number)} JANE`,
  'a reference after a word': ({ tracking_number }) => `ACC ${tracking_number}`,
  'small letters with spaces': ({ tracking_number }) =>
    `${tracking_number.replaceAll('-', ' ').toLowerCase()} asante`,
  'a reference with a description': ({ tracking_number }) =>
    `${accountReference(tracking_number)}#Juice order`,
  'the letter O for zero': ({ tracking_number }) => tracking_number.replaceAll('0', 'O'),
  'a link': ({ tracking_number }) => `https://jani.example/track-order/${tracking_number}.`,
  'its order number': ({ order_number }) => order_number,
  'its order number in a sentence': ({ order_number }) =>
    `for ${order_number.toLowerCase().replace('-', '')}, thanks`,
};

describe.each(testDatabases())('on %s', (kind) => {
  const { database, asVisitor, asStaff, readValue, place, track, receive } = setUpShop(kind);
  let product: string;
  beforeAll(async () => {
    product = await makeProduct(database, 1000);
    await database.query(`update private.limits set within = '1000 days' where true`);
  });

  async function placeNumbered(): Promise<Order> {
    const order = await place(product);
    const number = await readValue('select order_number from public.orders where id = $1', [order.id]);
    return { ...order, order_number: number ?? '' };
  }
  async function numbersIn(texts: readonly string[]): Promise<string[][]> {
    const { rows } = await database.query<{ numbers: string[][] }>(
      `select jsonb_agg(private.order_numbers_in(t.text) order by t.place) as numbers
       from jsonb_array_elements_text($1::jsonb) with ordinality as t (text, place)`,
      [JSON.stringify(texts)],
    );
    return rows[0]?.numbers ?? [];
  }

  test('reads every example as domain/orders/tracking-number.ts does', async () => {
    const found = await numbersIn(orderNumberExamples.map(([text]) => text));
    expect(found.map((numbers, index) => [orderNumberExamples[index]?.[0], numbers])).toEqual(
      orderNumberExamples.map(([text, numbers]) => [text, numbers]),
    );
  });

  test('reads any text as domain/orders/tracking-number.ts does', async () => {
    const piece = fc.constantFrom(
      'J',
      'JJ',
      'jj',
      'ORD',
      'ord',
      'ORDER',
      'order no',
      '0RD',
      '2026',
      '26',
      '11',
      '12',
      '01',
      '3l',
      'O5',
      '4873',
      '12345',
      '123456',
      '1060',
      'IO6O',
      '-',
      ' ',
      '  ',
      '/',
      '.',
      ',',
      '=',
      '#',
      '\n',
      '\u200b',
      '\u2013',
      'KES',
      'JANE',
      'O',
      'l',
      'ß',
      'ı',
      'é',
      '0',
      '9',
    );
    const text = fc.oneof(
      fc.array(piece, { maxLength: 14 }).map((pieces) => pieces.join('')),
      fc
        .tuple(fc.constantFrom(...orderNumberExamples.map(([example]) => example)), piece, piece)
        .map(([example, before, after]) => before + example + after),
    );
    const texts = fc.sample(text, { numRuns: 2000, seed: 4 });
    const found = await numbersIn(texts);
    expect(found.map((numbers, index) => [texts[index], numbers])).toEqual(
      texts.map((one) => [one, readOrderNumbers(one)]),
    );
  });

  test.each(Object.entries(spellings))('%s of a payer pays the order', async (_, spell) => {
    const order = await placeNumbered();
    const { outcome, payment } = await receive(spell(order));
    expect({ outcome, order: payment?.order_id }).toEqual({ outcome: 'paid', order: order.id });
  });

  test('money whose reference names two orders waits for staff, who see both', async () => {
    const [one, other] = [await placeNumbered(), await placeNumbered()];
    const reference = `${one.order_number} and ${accountReference(other.tracking_number)}`;
    expect((await receive(reference)).outcome).toBe('unmatched');
    const { rows } = await database.query<{ both: boolean }>(
      `select count(*) = 2 as both from private.orders_named(private.order_numbers_in($1))`,
      [reference],
    );
    expect(rows[0]?.both).toBe(true);
  });

  test.each(Object.entries(spellings))(
    'customers find their order by %s and the last digits of its phone',
    async (_, spell) => {
      const order = await placeNumbered();
      const tracked = await track({ tracking_number: spell(order) }, { phone_last_four: '5678' });
      expect(tracked).toMatchObject({ id: order.id, tracking_number: order.tracking_number });
    },
  );

  test('an order number without proof shows the status alone, because the next ones are easily guessed', async () => {
    const order = await placeNumbered();
    const shown = {
      order_number: order.order_number,
      status: 'pending',
      is_masked: true,
      needs_digits: true,
    };
    for (const procedure of ['track_order', 'order_receipt']) {
      const tracking_number = order.order_number;
      expect(await asVisitor(procedure, { tracking_number })).toEqual(shown);
      expect(await asVisitor(procedure, { tracking_number, phone_last_four: '0000' })).toEqual(shown);
    }
    expect(await track({ tracking_number: 'ORD-999999' })).toBeNull();
  });

  test('wrong digits count for an order, not for a spelling of its number', async () => {
    const order = await placeNumbered();
    const written = Object.values(spellings);
    const guess = (tracking_number: string, address: string) =>
      track({ tracking_number }, { phone_last_four: '0000' }, address);
    for (let index = 0; index < 5; index += 1) {
      await guess((written[index * 2] ?? written[0])?.(order) ?? '', '203.0.113.7');
    }
    await expectRefusal(guess(order.order_number, '203.0.113.7'), 429, 'too_many_guesses');
  });

  test.each(Object.entries(spellings))('staff find an order by %s', async (_, spell) => {
    const order = await placeNumbered();
    expect(await asStaff('count_orders', { search: spell(order) })).toBe(1);
  });
});
