// What customers see of a delivery besides its status, and their ratings: times of the steps, the rider on the way, one rating per order.
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { expectRefusal, makeProduct, type PlacedOrder } from '../shop-database.ts';
import { newPhone, setUpShop } from '../steps.ts';

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, asStaff, asVisitor, callAs, place, pay, queryAs, readRow, readRows, setStatus } = shop;
  const { track, trackAsCustomer } = shop;
  let product: string;
  beforeAll(async () => {
    product = await makeProduct(database, 500);
    await asStaff('save_rider', {
      name: 'Brian Otieno',
      phone: '0711000001',
      vehicle: 'Motorbike',
      plate: 'KMEH 123A',
    });
  });
  beforeEach(() => database.execute('delete from private.rate_limits'));

  const placePaid = async () => {
    const order = await place(product, { customer_phone: newPhone() });
    await pay(order);
    return order;
  };
  const assign = ({ id }: PlacedOrder, rider: Record<string, string> = {}) =>
    asStaff('assign_delivery', {
      order_id: id,
      delivery_person: 'Brian Otieno',
      delivery_phone: '0711 000 001',
      delivery_vehicle: 'Motorbike, KMEH 123A',
      ...rider,
    });
  const deliver = async () => {
    const order = await placePaid();
    await setStatus(order, 'delivered');
    return order;
  };
  const rate = ({ id, access_key }: PlacedOrder, stars: unknown, words?: string, may_quote?: boolean) =>
    asVisitor('rate_order', {
      order_id: id,
      access_key,
      stars,
      words: words ?? null,
      ...(may_quote === undefined ? {} : { may_quote }),
    });

  describe('on its way', () => {
    test('the customer sees first name, plate and phone of the rider, and strangers do not', async () => {
      const order = await placePaid();
      await assign(order);
      expect(await trackAsCustomer(order), 'still in the shop').not.toHaveProperty('rider');
      await setStatus(order, 'out_for_delivery');
      expect(await trackAsCustomer(order)).toMatchObject({
        rider: { first_name: 'Brian', plate: 'KMEH 123A', phone: '+254711000001' },
      });
      expect(await track(order)).not.toHaveProperty('rider');
      await setStatus(order, 'delivered');
      expect(await trackAsCustomer(order), 'delivered').not.toHaveProperty('rider');
    });

    test('a typed rider has the vehicle, and a phone only if it is one', async () => {
      const order = await placePaid();
      await assign(order, { delivery_person: 'Juma', delivery_phone: 'none', delivery_vehicle: 'Bicycle' });
      await setStatus(order, 'out_for_delivery');
      expect(await trackAsCustomer(order)).toMatchObject({
        rider: { first_name: 'Juma', plate: 'Bicycle', phone: null },
      });
    });

    test('followers are notified when another rider takes it', async () => {
      const order = await placePaid();
      await assign(order);
      await setStatus(order, 'out_for_delivery');
      const sent = () => readRows(`select from realtime.messages where topic = 'order-' || $1`, [order.id]);
      const before = (await sent()).length;
      const delivery = await readRow('select updated_at from public.deliveries where order_id = $1', [
        order.id,
      ]);
      await asStaff('assign_delivery', {
        order_id: order.id,
        delivery_person: 'Juma',
        delivery_phone: '0711000009',
        delivery_vehicle: 'Van',
        seen_updated_at: delivery?.updated_at,
      });
      expect((await sent()).length).toBe(before + 1);
    });
  });

  test('each step has its time, also without proof, and only once it is reached', async () => {
    const order = await place(product, { customer_phone: newPhone() });
    const steps = async () => Object.keys((await track<{ steps?: object }>(order)).steps ?? {});
    expect(await steps()).toEqual([]);
    await pay(order);
    expect(await steps()).toEqual(['paid_at']);
    await assign(order);
    await setStatus(order, 'out_for_delivery');
    await queryAs('staff', `update public.deliveries set delivery_status = 'picked_up' where order_id = $1`, [
      order.id,
    ]);
    expect((await steps()).sort()).toEqual(['paid_at', 'picked_up_at']);
    await setStatus(order, 'delivered');
    expect((await steps()).sort()).toEqual(['delivered_at', 'paid_at', 'picked_up_at']);
  });

  describe('a rating', () => {
    test('is given once per order, with words or without, and can be changed', async () => {
      const order = await deliver();
      expect(await trackAsCustomer(order)).toMatchObject({ may_rate: true });
      expect(await rate(order, 4)).toEqual({ stars: 4, words: null, may_quote: false });
      expect(await rate(order, 5, ' Cold,\nand fast! ', true)).toEqual({
        stars: 5,
        words: 'Cold,\nand fast!',
        may_quote: true,
      });
      expect(await trackAsCustomer(order)).toMatchObject({
        may_rate: true,
        rating: { stars: 5, words: 'Cold,\nand fast!' },
      });
      expect(await readRows('select stars from public.ratings where order_id = $1', [order.id])).toEqual([
        { stars: 5 },
      ]);
    });

    test('is for staff: strangers and other customers do not see it', async () => {
      const order = await deliver();
      await rate(order, 2, 'Warm');
      expect(await track(order)).not.toHaveProperty('rating');
      const other = await deliver();
      expect(await trackAsCustomer(other)).not.toHaveProperty('rating');
      const { rows } = await queryAs(
        'counter',
        'select stars, words from public.ratings where order_id = $1',
        [order.id],
      );
      expect(rows).toEqual([{ stars: 2, words: 'Warm' }]);
    });

    test('stays after a day', async () => {
      const order = await deliver();
      await rate(order, 4);
      await database.query(
        `update public.ratings set created_at = created_at - interval '1 day' where order_id = $1`,
        [order.id],
      );
      await expectRefusal(rate(order, 1), 409, 'rating_closed');
      expect(await trackAsCustomer(order)).toMatchObject({ may_rate: false, rating: { stars: 4 } });
    });

    test('is refused before the delivery, and a month after it', async () => {
      const order = await placePaid();
      await expectRefusal(rate(order, 5), 409, 'rating_closed');
      await setStatus(order, 'delivered');
      await database.execute('alter table public.deliveries disable trigger user');
      await database.query(
        `update public.deliveries set delivery_time = now() - interval '30 days' where order_id = $1`,
        [order.id],
      );
      await database.execute('alter table public.deliveries enable trigger user');
      await expectRefusal(rate(order, 5), 409, 'rating_closed');
    });

    test.each([
      [0, undefined, 'rating_invalid'],
      [6, undefined, 'rating_invalid'],
      [null, undefined, 'rating_invalid'],
      [5, 'a'.repeat(301), 'rating_too_long'],
      [5, 'é'.repeat(3000), 'rating_too_long'],
    ])('of %j stars with the words %j is refused', async (stars, words, code) => {
      await expectRefusal(rate(await deliver(), stars, words), 400, code);
    });

    test('needs the access key of its order', async () => {
      const [order, other] = [await deliver(), await deliver()];
      await expectRefusal(rate({ ...order, access_key: other.access_key }, 1), 404, 'order_not_found');
      await expectRefusal(rate({ ...order, access_key: '' }, 1), 404, 'order_not_found');
      await rate(order, 1);
    });

    test('is limited per network, refusals included', async () => {
      const order = await deliver();
      await database.execute(`update private.limits set allowed = 2 where name = 'ratings'`);
      const fromNetwork = (access_key: string) =>
        callAs('visitor', 'rate_order', { order_id: order.id, access_key, stars: 5 }, '192.0.2.77');
      await fromNetwork(order.access_key);
      await expectRefusal(fromNetwork('wrong'), 404, 'order_not_found');
      await expectRefusal(fromNetwork(order.access_key), 429, 'too_many_ratings');
      await database.execute(`update private.limits set allowed = 60 where name = 'ratings'`);
    });

    test('loses its words with the details of the order, and is in the copy for its customer before', async () => {
      const order = await deliver();
      await rate(order, 3, 'The gate was closed');
      const phone = await readRow<{ customer_phone: string }>(
        'select customer_phone from public.orders where id = $1',
        [order.id],
      );
      const copy = await asStaff<{ orders: { rating: object }[] }>('export_person', {
        identifier: phone?.customer_phone,
      });
      expect(copy.orders[0]?.rating).toMatchObject({ stars: 3, words: 'The gate was closed' });
      await database.query('select private.anonymise_orders(array[$1::uuid])', [order.id]);
      expect(
        await readRow('select stars, words from public.ratings where order_id = $1', [order.id]),
      ).toEqual({
        stars: 3,
        words: null,
      });
    });
  });

  describe('words on the storefront', () => {
    interface Quote {
      words: string;
      first_name: string;
      area: string;
    }
    const ratingOf = async ({ id }: PlacedOrder) =>
      (await readRow<{ updated_at: string; may_quote: boolean; is_quoted: boolean }>(
        'select updated_at::text, may_quote, quoted_at is not null as is_quoted from public.ratings where order_id = $1',
        [id],
      )) ?? expect.fail('no rating');
    const choose = async (order: PlacedOrder, is_quoted = true) =>
      asStaff('quote_rating', {
        order_id: order.id,
        is_quoted,
        seen_updated_at: (await ratingOf(order)).updated_at,
      });
    const quotes = async () =>
      (await queryAs<Quote>('visitor', 'select * from public.customer_quotes()')).rows;
    const shown = async () => (await quotes()).map(({ words }) => words);

    test('are those that the customer allows and staff choose, with first name and area', async () => {
      const order = await deliver();
      await rate(order, 5, 'Cold as Nyahururu', true);
      expect(await shown(), 'not chosen yet').not.toContain('Cold as Nyahururu');
      await choose(order);
      const { customer_name, area } = (await readRow<{ customer_name: string; area: string }>(
        'select customer_name, coalesce(area_name, city) as area from public.orders where id = $1',
        [order.id],
      )) ?? { customer_name: '', area: '' };
      expect(await quotes()).toContainEqual({
        words: 'Cold as Nyahururu',
        first_name: customer_name.split(' ')[0],
        area,
      });
      await choose(order, false);
      expect(await shown(), 'taken off').not.toContain('Cold as Nyahururu');
    });

    test('need consent, and words', async () => {
      const [silent, wordless] = [await deliver(), await deliver()];
      await rate(silent, 5, 'For you alone');
      await rate(wordless, 5, undefined, true);
      expect((await ratingOf(wordless)).may_quote).toBe(false);
      for (const order of [silent, wordless]) await expectRefusal(choose(order), 409, 'rating_changed');
    });

    test.each([
      ['other words', 5, 'Changed my mind', true],
      ['other stars', 1, 'Lovely', true],
      ['no consent any more', 5, 'Lovely', false],
    ])('end with %s of the customer', async (_, stars, words, mayQuote) => {
      const order = await deliver();
      await rate(order, 5, 'Lovely', true);
      await choose(order);
      await rate(order, 5, 'Lovely', true);
      expect((await ratingOf(order)).is_quoted, 'the same again').toBe(true);
      await rate(order, stars, words, mayQuote);
      expect((await ratingOf(order)).is_quoted).toBe(false);
    });

    test('are chosen as they were read', async () => {
      const order = await deliver();
      await rate(order, 5, 'First', true);
      const { updated_at } = await ratingOf(order);
      await rate(order, 1, 'Second', true);
      await expectRefusal(
        asStaff('quote_rating', { order_id: order.id, is_quoted: true, seen_updated_at: updated_at }),
        409,
        'rating_changed',
      );
    });

    test('are chosen by owners alone', async () => {
      const order = await deliver();
      await rate(order, 5, 'Mine', true);
      const given = {
        order_id: order.id,
        is_quoted: true,
        seen_updated_at: (await ratingOf(order)).updated_at,
      };
      await expectRefusal(callAs('counter', 'quote_rating', given), 403, 'not_in_role');
      await expectRefusal(callAs('customer', 'quote_rating', given), 403, 'staff_only');
      await asStaff('quote_rating', given);
    });

    test('are gone with the details of the order', async () => {
      const order = await deliver();
      await rate(order, 5, 'Forget me', true);
      await choose(order);
      expect(await shown()).toContain('Forget me');
      await database.query('select private.anonymise_orders(array[$1::uuid])', [order.id]);
      expect(await shown()).not.toContain('Forget me');
      expect(await ratingOf(order)).toMatchObject({ may_quote: false, is_quoted: false });
    });

    test('are at most six, those chosen last first', async () => {
      const words = Array.from({ length: 7 }, (_, n) => `Number ${n}`);
      for (const text of words) {
        const order = await deliver();
        await rate(order, 5, text, true);
        await choose(order);
      }
      const lastSix = words.reverse().slice(0, 6);
      expect(await shown()).toEqual(lastSix);
      const marked = 'select r.words from public.ratings as r where public.is_on_home_page(r)';
      const { rows } = await queryAs<Quote>('staff', marked);
      expect(rows.map((row) => row.words).sort()).toEqual(lastSix.sort());
    });
  });
});
