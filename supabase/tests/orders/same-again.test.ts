// "Same again?": the last delivered order of a device, what it costs now, and placing it in one call.
import { randomUUID } from 'node:crypto';
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { expectRefusal, makeProduct, type PlacedOrder } from '../shop-database.ts';
import { newPhone, setUpShop } from '../steps.ts';

interface Offer {
  tracking_number: string;
  items: { product_id: string; name: string; price: number; quantity: number }[];
  place: string;
  delivery_fee: number;
  total: number;
}

describe.each(testDatabases())('on %s', (kind) => {
  const { database, asStaff, asVisitor, place, pay, readRow, readValue, setStatus } = setUpShop(kind);
  let product: string;
  beforeEach(async () => {
    product = await makeProduct(database, 100);
    await database.execute('delete from private.rate_limits');
  });

  const deliver = async (order: PlacedOrder) => {
    await pay(order);
    await setStatus(order, 'delivered');
    return order;
  };
  const delivered = async (form: Record<string, unknown> = {}) =>
    deliver(
      await place(product, {
        customer_phone: newPhone(),
        delivery_location: 'Mpaka Road',
        building: 'Krishna Centre',
        unit: 'B4',
        delivery_notes: 'Blue gate',
        ...form,
      }),
    );
  const offerOf = (...orders: PlacedOrder[]) =>
    asVisitor<Offer | null>('same_again', { access_keys: orders.map(({ access_key }) => access_key) });
  const repeat = (order: PlacedOrder, expected_total: number, more: Record<string, unknown> = {}) =>
    asVisitor<PlacedOrder>('order_again', {
      access_key: order.access_key,
      idempotency_key: randomUUID(),
      expected_total,
      accepts_terms: true,
      ...more,
    });
  const detailsOf = ({ id }: { id: string }) =>
    readRow(
      `select customer_name, customer_email, customer_phone, shipping_address, delivery_notes, area_id, map_point, source
       from public.orders where id = $1`,
      [id],
    );

  test('offers the newest delivered order with today’s prices and its place', async () => {
    const older = await delivered();
    const newest = await delivered();
    await database.query('update public.products set price = price + 5000 where id = $1', [product]);
    const price = Number(await readValue('select price from public.products where id = $1', [product]));
    const fee = Number(await readValue('select delivery_fee from public.store_settings'));
    expect(await offerOf(older, newest)).toMatchObject({
      tracking_number: newest.tracking_number,
      items: [{ product_id: product, price, quantity: 1 }],
      place: 'Mpaka Road',
      delivery_fee: fee,
      total: price + fee,
    });
  });

  test('places it with the details of the first, once for each key', async () => {
    const first = await delivered({ map_point: '-1.29207,36.82195' });
    const offer = (await offerOf(first)) as Offer;
    const key = randomUUID();
    const [second, sent] = [
      await repeat(first, offer.total, { idempotency_key: key }),
      await repeat(first, offer.total, { idempotency_key: key }),
    ];
    expect(sent.id).toBe(second.id);
    expect(second.id).not.toBe(first.id);
    expect(second.total_amount).toBe(offer.total);
    expect(await detailsOf(second)).toEqual(await detailsOf(first));
    expect(
      await readRow('select product_id, quantity, unit_price from public.order_items where order_id = $1', [
        second.id,
      ]),
    ).toEqual({ product_id: product, quantity: 1, unit_price: offer.items[0]?.price });
    expect(
      await readValue('select accepted_terms is not null from public.orders where id = $1', [second.id]),
    ).toBe(true);
  });

  test('refuses another repeat while the first is under way, and names it', async () => {
    const first = await delivered();
    const { total } = (await offerOf(first)) as Offer;
    const [one, other] = await Promise.allSettled([repeat(first, total), repeat(first, total)]);
    const placed = [one, other].flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
    expect(placed).toHaveLength(1);
    const second = placed[0] as PlacedOrder;
    expect(await expectRefusal(repeat(first, total), 409, 'order_repeated')).toMatchObject({
      message: `You have just ordered this: ${second.tracking_number}`,
      hint: second.tracking_number,
    });
    await setStatus(second, 'cancelled');
    const third = await repeat(first, total);
    await deliver(third);
    expect((await repeat(first, total)).id).not.toBe(third.id);
  });

  test('keeps a comma in the place, and an address without building and unit', async () => {
    const order = await delivered({
      delivery_location: 'Mpaka Road, near Total',
      building: null,
      unit: null,
    });
    const offer = (await offerOf(order)) as Offer;
    expect(offer.place).toBe('Mpaka Road, near Total');
    expect(await detailsOf(await repeat(order, offer.total))).toEqual(await detailsOf(order));
  });

  test('refuses another total with the current one, and orders nothing', async () => {
    const order = await delivered();
    const { total } = (await offerOf(order)) as Offer;
    await database.query('update public.products set price = price + 100 where id = $1', [product]);
    await expectRefusal(repeat(order, total), 409, 'total_changed');
    expect(
      await readValue(
        'select count(*)::integer from public.orders where customer_phone = (select customer_phone from public.orders where id = $1)',
        [order.id],
      ),
    ).toBe(1);
  });

  test.each<[string, (order: PlacedOrder) => Promise<unknown>]>([
    [
      'of which a drink is sold out',
      () => database.query('update public.products set stock_quantity = 0 where id = $1', [product]),
    ],
    [
      'of which a drink is not sold any more',
      () => database.query('update public.products set is_active = false where id = $1', [product]),
    ],
    [
      'of which a drink was deleted',
      () => database.query('delete from public.products where id = $1', [product]),
    ],
    [
      'whose money went back',
      ({ id }) => database.query(`update public.orders set payment_status = 'refunded' where id = $1`, [id]),
    ],
    [
      'that is collected',
      ({ id }) =>
        database.query('update public.orders set is_collected = true, delivery_fee = 0 where id = $1', [id]),
    ],
    [
      'without an email address',
      ({ id }) => database.query(`update public.orders set customer_email = '' where id = $1`, [id]),
    ],
  ])('does not offer an order %s', async (_, change) => {
    const order = await delivered();
    expect(await offerOf(order), 'before').not.toBeNull();
    await change(order);
    expect(await offerOf(order)).toBeNull();
  });

  test('offers nothing while orders are paused, or a box must be ticked', async () => {
    const order = await delivered();
    await database.execute(`update public.store_settings set requires_terms_tick = true`);
    expect(await offerOf(order)).toBeNull();
    await database.execute(`update public.store_settings set requires_terms_tick = false`);
    await asStaff('pause_orders', { reason: 'Rain', minutes: 30 });
    expect(await offerOf(order)).toBeNull();
    await asStaff('resume_orders');
    expect(await offerOf(order)).not.toBeNull();
  });

  test('needs the access key of a delivered order', async () => {
    const unpaid = await place(product, { customer_phone: newPhone() });
    expect(await offerOf(unpaid)).toBeNull();
    await expectRefusal(repeat(unpaid, unpaid.total_amount), 404, 'order_not_repeatable');
    await expectRefusal(
      repeat({ ...unpaid, access_key: unpaid.tracking_number }, unpaid.total_amount),
      404,
      'order_not_repeatable',
    );
    await database.execute(`update private.limits set allowed = 1 where name = 'order_lookups'`);
    const stranger = '203.0.113.77';
    const guess = () => asVisitor('same_again', { access_keys: ['0'.repeat(32)] }, stranger);
    expect(await guess()).toBeNull();
    await expectRefusal(guess(), 429, 'too_many_lookups');
    await database.execute(`update private.limits set allowed = 60 where name = 'order_lookups'`);
  });
});
