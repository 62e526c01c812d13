// A visitor asks for one text when a drink is in stock again: who may ask, who is texted when, and what the text says.
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { type StockFacts, writeMessage } from '../../../domain/messages/customer-message.ts';
import { textLength } from '../../../domain/messages/text-message.ts';
import { expectRefusal, type Person } from '../shop-database.ts';
import { setUpShop } from '../steps.ts';

const amina = '+254712000001';

describe.each(testDatabases())('on %s', (kind) => {
  const { database, asVisitor, asStaff, asService, queryAs, readRows, readColumn } = setUpShop(kind);
  let product: string;
  /** The function before tests replace it. */
  let asInShop = '';

  beforeEach(async () => {
    asInShop ||=
      (await readColumn(`select pg_get_functiondef('private.is_time_for_texts'::regproc)`))[0] ?? '';
    await database.execute(`
      delete from public.products where slug like 'alert-%';
      delete from public.stock_alerts;
      delete from public.outbox_messages;
      delete from private.rate_limits;
      delete from private.messages_sent;
      update public.store_settings set offers_stock_alerts = true, texts_per_day = 300, orders_pause_reason = null;
      update public.message_templates set is_on = true where kind = 'back_in_stock';
      -- At any hour of the day.
      create or replace function private.is_time_for_texts(at timestamptz) returns boolean language sql stable return true`);
    product = await makeSoldOut('one');
  });

  async function makeSoldOut(name: string): Promise<string> {
    const { rows } = await database.query<{ id: string }>(
      `insert into public.products (name, slug, price, stock_quantity) values ($1, 'alert-' || $1, 90000, 0) returning id`,
      [name],
    );
    return rows[0]?.id ?? '';
  }
  const ask = (phone = amina, product_id = product, address = '203.0.113.9') =>
    asVisitor('request_stock_alert', { product_id, phone, has_consented: true }, address);
  const stock = (units: number, id = product) =>
    database.query('update public.products set stock_quantity = $2 where id = $1', [id, String(units)]);
  const lease = () =>
    database
      .query(`select * from public.lease_messages(100, 'text')`)
      .then(({ rows }) => rows as { id: string; lease: string; recipient: string; facts: StockFacts }[]);
  /** Makes the queued texts due, and leases them. */
  async function leaseDue() {
    await lease();
    await database.execute(`update private.outbox_queue set due_at = now() - interval '1 second'`);
    return lease();
  }
  const begin = ({ id, lease: key }: { id: string; lease: string }) =>
    asService('begin_message', { message_id: id, lease: key, body: 'text' });
  async function send() {
    const leased = await leaseDue();
    const sent: string[] = [];
    for (const message of leased) {
      const attempt = await begin(message);
      if (attempt === null) continue;
      await asService('finish_message', { message_id: message.id, attempt, outcome: 'sent' });
      sent.push(message.recipient);
    }
    return sent;
  }
  const isDue = async () =>
    (await readColumn(`select private.is_job_due('send-messages')::text`))[0] === 'true';
  const waiting = async (person: Person) => {
    const { rows } = await queryAs<{ waiting: number | null }>(
      person,
      'select public.waiting_for_stock(p) as waiting from public.products as p where p.id = $1',
      [product],
    );
    return rows[0]?.waiting;
  };

  test('one text leaves when the stock is above zero, and no other, however often it sells out again', async () => {
    await ask('0712 000 001');
    expect(await isDue()).toBe(false);
    expect(await send()).toEqual([]);
    await stock(5);
    expect(await isDue()).toBe(true);
    expect(await send()).toEqual([amina]);
    expect(await isDue()).toBe(false);
    await stock(0);
    await stock(5);
    expect(await send()).toEqual([]);
  });

  test('the end of "sold out for an hour" brings the text, too', async () => {
    await database.query(
      `update public.products set stock_quantity = 5, sold_out_until = now() + interval '1 hour' where id = $1`,
      [product],
    );
    await ask();
    expect(await send()).toEqual([]);
    await database.query(
      `update public.products set sold_out_until = now() - interval '1 second' where id = $1`,
      [product],
    );
    expect(await send()).toEqual([amina]);
  });

  test('a text that is no longer true when it would leave is not sent, and the phone waits on', async () => {
    await ask();
    await stock(5);
    const [message] = await leaseDue();
    await stock(0);
    expect(message && (await begin(message))).toBeNull();
    expect(await waiting('staff')).toBe(1);
    await stock(5);
    expect(await send()).toEqual([amina]);
  });

  test('few units call few customers, the oldest first, and further ones an hour later', async () => {
    const phones = Array.from({ length: 7 }, (_, index) => `+25471200000${index}`);
    for (const [index, phone] of phones.entries()) {
      await ask(phone);
      await database.query(
        `update public.stock_alerts set created_at = now() - make_interval(mins => 60 - $2::integer) where phone = $1`,
        [phone, String(index)],
      );
    }
    await stock(2);
    expect((await send()).toSorted()).toEqual(phones.slice(0, 4));
    expect(await send()).toEqual([]);
    await database.execute(
      `update public.outbox_messages set created_at = created_at - interval '61 minutes'`,
    );
    expect((await send()).toSorted()).toEqual(phones.slice(4));
  });

  test("at most a fifth of the day's texts leave; the others wait for the next day", async () => {
    await database.execute('update public.store_settings set texts_per_day = 10');
    for (const digit of [1, 2, 3]) await ask(`+25471200000${digit}`);
    await stock(50);
    expect(await send()).toHaveLength(2);
    expect(await send()).toEqual([]);
    await database.execute(`update public.outbox_messages set created_at = created_at - interval '1 day'`);
    expect(await send()).toHaveLength(1);
  });

  test.each([
    [
      'by night',
      'create or replace function private.is_time_for_texts(at timestamptz) returns boolean language sql stable return false',
    ],
    [
      'while orders are paused',
      `update public.store_settings set orders_pause_reason = 'Rain', orders_paused_until = null`,
    ],
    ['while the setting is off', 'update public.store_settings set offers_stock_alerts = false'],
    [
      'while the template is off',
      `update public.message_templates set is_on = false where kind = 'back_in_stock'`,
    ],
    ['of a withdrawn drink', `update public.products set is_active = false where slug = 'alert-one'`],
    ['after 60 days', `update public.stock_alerts set ends_at = now()`],
  ])('no text leaves %s', async (_, change) => {
    await ask();
    await stock(5);
    await database.execute(change);
    expect(await isDue()).toBe(false);
    expect(await send()).toEqual([]);
  });

  test.each([
    ['07:59', false],
    ['08:00', true],
    ['20:59', true],
    ['21:00', false],
    ['02:00', false],
  ])('at %s in Nairobi texts leave: %s', async (time, is) => {
    await database.execute(asInShop);
    expect(
      await readColumn(`select private.is_time_for_texts(('2026-11-29 ' || $1 || '+03')::timestamptz)`, [
        time,
      ]),
    ).toEqual([is]);
  });

  test('asking twice is one wait, in any spelling, and keeps its place', async () => {
    await ask('0712 000 001');
    await database.execute(
      `update public.stock_alerts set created_at = now() - interval '50 days', ends_at = now() + interval '10 days'`,
    );
    await ask('+254 712-000-001');
    expect(
      await readRows(
        `select phone, created_at < now() - interval '49 days' as is_old, ends_at > now() + interval '59 days' as is_longer
         from public.stock_alerts`,
      ),
    ).toEqual([{ phone: amina, is_old: true, is_longer: true }]);
  });

  test('after the text the same phone may ask again', async () => {
    await ask();
    await stock(5);
    expect(await send()).toEqual([amina]);
    await stock(0);
    await ask();
    expect(await waiting('staff')).toBe(1);
    await stock(5);
    expect(await send()).toEqual([amina]);
  });

  test.each([
    ['no consent', { has_consented: false }, 400, 'consent_missing'],
    ['no phone', { phone: null }, 400, 'phone_invalid'],
    ['a foreign phone', { phone: '+44 20 7946 0000' }, 400, 'phone_invalid'],
    ['an unknown product', { product_id: crypto.randomUUID() }, 404, 'product_not_found'],
  ])('refuses %s, and counts the call', async (_, change, status, code) => {
    await expectRefusal(
      asVisitor(
        'request_stock_alert',
        { product_id: product, phone: amina, has_consented: true, ...change },
        '203.0.113.9',
      ),
      status,
      code,
    );
    expect(await readRows('select from public.stock_alerts')).toEqual([]);
    expect(
      await readColumn(`select hits::text from private.rate_limits where bucket = 'stock_alerts' limit 1`),
    ).toEqual(['1']);
  });

  test('refuses a drink that is in stock, and everything while it is off', async () => {
    await stock(1);
    await expectRefusal(ask(), 409, 'in_stock');
    await stock(0);
    await database.execute('update public.store_settings set texts_per_day = 0');
    await expectRefusal(ask(), 409, 'stock_alerts_off');
    await database.execute(
      'update public.store_settings set texts_per_day = 300, offers_stock_alerts = false',
    );
    await expectRefusal(ask(), 409, 'stock_alerts_off');
  });

  test('a phone waits for five drinks at most, and a network asks thirty times a day', async () => {
    for (const name of ['two', 'three', 'four', 'five']) await ask(amina, await makeSoldOut(name));
    await ask();
    await expectRefusal(ask(amina, await makeSoldOut('six')), 429, 'too_many_stock_alerts');
    await ask('+254712000002');
    for (let count = 7; count < 30; count += 1) await ask(amina);
    await expectRefusal(ask('+254712000003'), 429, 'too_many_stock_alerts');
    await ask('+254712000003', product, '198.51.100.77');
  });

  test('a blocked phone gets the same answer, and no text', async () => {
    await asStaff('block_phone', { phone: amina, reason: 'Never paid' });
    expect(await ask()).toBeNull();
    expect(await readRows('select from public.stock_alerts')).toEqual([]);
    await asStaff('unblock_phone', { phone: amina });
    expect(await ask()).toBeNull();
    expect(await readRows('select from public.stock_alerts')).toHaveLength(1);
  });

  test('only staff read who waits and how many, and no one writes the table', async () => {
    await ask();
    expect((await queryAs('staff', 'select phone from public.stock_alerts')).rows).toEqual([
      { phone: amina },
    ]);
    expect(await waiting('staff')).toBe(1);
    await expect(queryAs('visitor', 'select phone from public.stock_alerts')).rejects.toThrow(
      /permission denied/,
    );
    await expect(waiting('visitor')).rejects.toThrow(/permission denied/);
    for (const person of ['visitor', 'staff'] as const) {
      await expect(
        queryAs(person, 'insert into public.stock_alerts (product_id, phone) values ($1, $2)', [
          product,
          amina,
        ]),
      ).rejects.toThrow(/permission denied/);
    }
  });

  test('is exported and erased with the person', async () => {
    await ask();
    await ask('+254712000002');
    await stock(5);
    await leaseDue();
    expect(await asStaff('export_person', { identifier: amina })).toMatchObject({
      waits_for_drinks: [{ product: 'one' }],
      texts_about_drinks: [{ kind: 'back_in_stock', recipient: amina }],
    });
    await asStaff('erase_person', { identifier: amina });
    expect(await readColumn('select phone from public.stock_alerts')).toEqual(['+254712000002']);
    expect(await readColumn('select recipient from public.outbox_messages order by 1')).toEqual([
      '',
      '+254712000002',
    ]);
  });

  test('is deleted with its product, after 60 days, and a day after its text', async () => {
    await ask();
    await asService('forget_old_rows', {});
    expect(await readRows('select from public.stock_alerts')).toHaveLength(1);
    await stock(5);
    await send();
    await asService('forget_old_rows', {});
    expect(await readRows('select from public.stock_alerts')).toHaveLength(1);
    await database.execute(`update public.outbox_messages set updated_at = now() - interval '25 hours'`);
    await asService('forget_old_rows', {});
    expect(await readRows('select from public.stock_alerts')).toEqual([]);
    await stock(0);
    await ask();
    await database.execute("update public.stock_alerts set ends_at = now() - interval '1 second'");
    await asService('forget_old_rows', {});
    expect(await readRows('select from public.stock_alerts')).toEqual([]);
    await ask();
    await database.query('delete from public.products where id = $1', [product]);
    expect(await readRows('select from public.stock_alerts')).toEqual([]);
  });

  test('the text of every demo drink fits one SMS, with link and opt-out', async () => {
    const [body = ''] = await readColumn(
      `select default_body from public.message_templates where kind = 'back_in_stock'`,
    );
    const drinks = await readRows<{ name: string; slug: string }>(
      `select name, slug from public.products where slug not like 'alert-%'`,
    );
    expect(drinks.length).toBeGreaterThan(20);
    await ask();
    await stock(5);
    const [message] = await leaseDue();
    expect(message?.facts).toMatchObject({ product: { name: 'one', slug: 'alert-one' } });
    const shop = message?.facts.shop ?? { name: '', phone: '', email: '' };
    for (const drink of [...drinks, { name: 'A very long name of a drink that goes on', slug: 'short' }]) {
      const text = writeMessage(
        { subject: null, body },
        'text',
        { shop, product: drink },
        'https://janijuice.co.ke',
      ).body;
      expect(textLength(text).positions, text).toBeLessThanOrEqual(160);
      expect(text).toContain(`https://janijuice.co.ke/shop/${drink.slug} `);
      expect(text).toMatch(/this one text\. To stop: 0700 000 000$/);
    }
  });
});
