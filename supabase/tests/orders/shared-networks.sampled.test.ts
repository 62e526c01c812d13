// Many customers behind one address of a mobile network: honest ones are neither refused nor left without messages, and a stranger
// behind the same address can spend little.
import { randomUUID } from 'node:crypto';
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { isExhaustive } from '../../../scripts/tests/test-depth.ts';
import { makeProduct } from '../shop-database.ts';
import { setUpShop } from '../steps.ts';

interface Day {
  /** Orders and prompts that were refused, and why. */
  refusals: Record<string, number>;
  placed: number;
  prompted: number;
  paid: number;
}

/** Runs whole days within the database: a call per order would take most of the time. */
const simulation = `
  create schema simulation;
  create table simulation.visits (n integer primary key, address text, order_id uuid, payment_id uuid, refusal text, is_paid boolean);

  create function simulation.appear_as(address text) returns void language plpgsql as $$
  begin
    perform set_config('request.headers', jsonb_build_object('x-forwarded-for', address)::text, true);
  end $$;

  -- A customer places an order and asks for the prompt; the phone is the customer's own unless prompted_phone says otherwise.
  create function simulation.visit(n integer, address text, product_id uuid, phone text, prompted_phone text) returns void
  language plpgsql as $$
  declare
    answer jsonb;
    begun jsonb;
    price integer := (select p.price from public.products as p where p.id = visit.product_id);
  begin
    perform simulation.appear_as(visit.address);
    answer := public.place_order(
      gen_random_uuid(), visit.product_id, 1, 'Amina Kamau', 'customer' || visit.phone || '@example.com', visit.phone, 'Westlands', price + 100
    );
    if not answer ? 'details' then
      begun := public.begin_payment((answer ->> 'id')::uuid, answer ->> 'tracking_number', visit.prompted_phone, gen_random_uuid()::text);
    end if;
    insert into simulation.visits
    select visit.n, visit.address, (answer ->> 'id')::uuid, (begun -> 'payment' ->> 'id')::uuid,
      coalesce(answer ->> 'details', begun ->> 'details'), false;
  end $$;

  create function simulation.end_prompt(n integer, result text, result_code text) returns void language plpgsql as $$
  declare
    ended simulation.visits := (select v from simulation.visits as v where v.n = end_prompt.n);
    checkout text := 'ws_CO_' || gen_random_uuid();
  begin
    if ended.payment_id is null then
      return;
    end if;
    perform public.record_push(ended.payment_id, '{}', checkout, checkout);
    perform public.settle_payment(
      ended.payment_id, 'callback', '{}', end_prompt.result, end_prompt.result_code, null,
      case end_prompt.result when 'succeeded' then (select p.charge_cents from public.payments as p where p.id = ended.payment_id) end,
      case end_prompt.result when 'succeeded' then upper(left(replace(gen_random_uuid()::text, '-', ''), 10)) end
    );
    update simulation.visits as v set is_paid = end_prompt.result = 'succeeded' where v.n = end_prompt.n;
  end $$;

  create function simulation.send_all() returns void language plpgsql as $$
  declare
    message record;
    attempt integer;
    is_idle boolean;
  begin
    for round in 1 .. 1000 loop
      is_idle := true;
      for message in select * from public.lease_messages(100) loop
        is_idle := false;
        attempt := public.begin_message(message.id, message.lease, 'Words');
        if attempt is not null then
          perform public.finish_message(message.id, attempt, 'sent');
        end if;
      end loop;
      exit when is_idle;
    end loop;
  end $$;

  -- Ten minutes pass: windows of ten minutes end, and orders come closer to their end.
  create function simulation.pass_ten_minutes() returns void language plpgsql as $$
  begin
    delete from private.rate_limits as r where r.window_end - r.window_start <= interval '10 minutes';
    delete from private.network_paid_orders as r where r.within <= interval '10 minutes';
    update public.orders as o
    set reserved_until = o.reserved_until - interval '10 minutes', expires_at = o.expires_at - interval '10 minutes',
        expiry_limit = o.expiry_limit - interval '10 minutes'
    where o.status = 'pending' and o.payment_status = 'unpaid';
    perform public.expire_reservations(10000);
  end $$;`;

describe.each(testDatabases())('on %s', (kind) => {
  const { database, asVisitor, asStaff, queryAs, readRows, readColumn, readValue } = setUpShop(kind);
  let product: string;
  beforeAll(async () => {
    await database.execute(simulation);
  });
  beforeEach(async () => {
    await database.execute(`
      update public.orders set status = 'cancelled' where status = 'pending' and payment_status = 'unpaid';
      delete from private.rate_limits;
      delete from private.network_paid_orders;
      delete from private.order_networks;
      delete from public.outbox_messages;
      delete from private.messages_sent;
      delete from simulation.visits;
      update public.store_settings set texts_per_day = 100000, mails_per_day = 100000 where id`);
    product = await makeProduct(database, 100_000);
  });

  /** The n-th phone of a series of customers, such as 0720000007. */
  const phones = (series: number) => `'07${String(series).padStart(2, '0')}' || lpad(n::text, 6, '0')`;

  /**
   * Customers arrive in bursts of 60 within ten minutes. Of each burst all prompts are open at once, then most are paid.
   * @param address SQL of the n-th customer's address
   * @param unpaidOf one order of this many is never paid
   */
  async function letCustomersOrder(
    count: number,
    address: string,
    unpaidOf: number,
    { series = 20, from = 0 } = {},
  ): Promise<void> {
    for (let first = from; first < from + count; first += 60) {
      const last = Math.min(first + 59, from + count - 1);
      await database.query(
        `select simulation.visit(n, ${address}, $1, ${phones(series)}, ${phones(series)}) from generate_series($2::integer, $3::integer) as n`,
        [product, first, last],
      );
      await database.query('select simulation.send_all()');
      await database.query(
        `select case when n % $3::integer = 0
           then simulation.end_prompt(n, 'failed', (array['1032', '1037', '2001', '1'])[1 + n / $3::integer % 4])
           else simulation.end_prompt(n, 'succeeded', '0')
         end
         from generate_series($1::integer, $2::integer) as n`,
        [first, last, unpaidOf],
      );
      await database.query('select simulation.pass_ten_minutes()');
    }
  }
  const count = async (query: string): Promise<number> =>
    (await readValue<number>(`select (${query})::integer as count`)) ?? -1;
  const dayOf = async (from = 0, to = 1_000_000): Promise<Day> => {
    const { rows } = await database.query<Day>(
      `select count(order_id)::integer as placed, count(payment_id)::integer as prompted, (count(*) filter (where is_paid))::integer as paid,
         coalesce((
           select jsonb_object_agg(refusal, times)
           from (select refusal, count(*) as times from simulation.visits where n between $1 and $2 and refusal is not null group by 1) as r
         ), '{}') as refusals
       from simulation.visits where n between $1 and $2`,
      [from, to],
    );
    return rows[0] as Day;
  };
  /** Paid orders that lack one of their four messages, or have one that was not sent. */
  const paidWithoutMessages = () =>
    count(`select count(*) from simulation.visits as v where v.is_paid and 4 <> (
      select count(*) from public.outbox_messages as m
      where m.order_id = v.order_id and m.kind in ('order_received', 'order_paid') and m.status = 'sent'
    )`);
  const messages = (channel: string, status: string, order = 'true') =>
    count(`select count(*) from public.outbox_messages as m join simulation.visits as v on v.order_id = m.order_id
      where m.kind = 'order_received' and m.channel = '${channel}' and m.status = '${status}' and ${order}`);

  const places: [string, string][] = [
    ['one IPv4 address', `'197.232.10.7'`],
    ['the addresses of one IPv4 /24', `'197.232.11.' || n % 250`],
    ['a /64 each in one IPv6 /48', `'2c0f:fe38:2201:' || to_hex(n) || '::1'`],
    ['one IPv6 /64', `'2c0f:fe38:2202:1::' || to_hex(n)`],
  ];
  const shares: [string, number][] = [
    ['10 %', 10],
    ['20 %', 5],
  ];
  // A whole day of the largest address takes minutes, on PGlite beside other tests more than are left.
  const customersOf = (place: string, unpaidOf: number) => {
    if (!isExhaustive) return 60;
    return place === 'one IPv4 address' && unpaidOf === 5 && kind === 'postgresql' ? 3000 : 600;
  };
  test.each(
    (isExhaustive ? places : places.slice(0, 3)).flatMap(([place, address]) =>
      (isExhaustive ? shares : shares.slice(1)).map(
        ([share, unpaidOf]) => [place, share, address, unpaidOf] as const,
      ),
    ),
  )(
    'customers behind %s, of whom %s do not pay, all order, and who pays gets every message',
    async (...given) => {
      const [place, , address, unpaidOf] = given;
      const customers = customersOf(place, unpaidOf);
      await letCustomersOrder(customers, address, unpaidOf);
      await database.query('select simulation.send_all()');
      const unpaid = customers / unpaidOf;
      expect(await dayOf()).toEqual({
        refusals: {},
        placed: customers,
        prompted: customers,
        paid: customers - unpaid,
      });
      expect(await paidWithoutMessages()).toBe(0);
      // Who does not pay gets the link, too, except in the first burst of a network, when no one had paid yet.
      for (const channel of ['text', 'mail']) {
        expect(await messages(channel, 'sent', 'not v.is_paid')).toBeGreaterThanOrEqual(
          0.9 * (unpaid - 60 / unpaidOf),
        );
      }
    },
    240_000,
  );

  const attack = async (tries: number, address: string, from = 500_000) => {
    await database.query(
      `select simulation.visit(n, ${address}, $1, ${phones(30)}, ${phones(31)}) from generate_series($2::integer, $3::integer) as n`,
      [product, from, from + tries - 1],
    );
  };
  const windows = isExhaustive ? 20 : 6;

  test('a stranger behind one address prompts 300 phones a day and causes no text and 20 mails', async () => {
    for (let window = 0; window < windows; window += 1) {
      await attack(105, `'102.0.0.1'`, 500_000 + 1000 * window);
      await database.query('select simulation.send_all()');
      await database.query('select simulation.pass_ten_minutes()');
    }
    const day = await dayOf();
    expect(day.prompted).toBe(300);
    expect(day.placed).toBeLessThanOrEqual(100 * windows);
    expect(Object.keys(day.refusals)).toContain('too_many_orders');
    expect(Object.keys(day.refusals)).toContain('too_many_unpaid_orders');
    expect(await messages('text', 'sent')).toBe(0);
    expect(await messages('mail', 'sent')).toBe(20);
  });

  test('above 300 new phones a day, only phones that were prompted that day, or paid before, are prompted', async () => {
    const address = '203.0.113.20';
    const visit = (n: number, phone: string) =>
      database.query('select simulation.visit($1::integer, $2, $3, $4, $4)', [n, address, product, phone]);
    const refusalOf = async (n: number) => (await dayOf(n, n)).refusals;
    await visit(1, '0722000001');
    await visit(2, '0722000002');
    await database.query(`select simulation.end_prompt(2, 'succeeded', '0')`);
    await database.query('select simulation.pass_ten_minutes()');
    // The paid order added two.
    await database.query(
      `update private.rate_limits set hits = 302 where bucket = 'prompted_phones' and subject = $1`,
      [address],
    );
    for (const [n, phone] of [
      [3, '0722000003'],
      [4, '0722000001'],
      [5, '0722000002'],
    ] as const) {
      await visit(n, phone);
    }
    expect([await refusalOf(3), await refusalOf(4), await refusalOf(5)]).toEqual([
      { too_many_payments: 1 },
      {},
      {},
    ]);
  });

  test('a stranger who orders with the phones of others causes ten texts from an address, 80 from a /24', async () => {
    const texts = async (address: string, from: number, tries: number) => {
      await database.query(
        `select simulation.visit(n, ${address}, $1, ${phones(32)}, ${phones(32)}) from generate_series($2::integer, $3::integer) as n`,
        [product, from, from + tries - 1],
      );
      await database.query('select simulation.send_all()');
      return [await messages('text', 'sent'), await messages('mail', 'sent')];
    };
    expect(await texts(`'102.1.0.1'`, 600_000, 60)).toEqual([10, 20]);
    expect(await texts(`'102.1.1.' || n % 30`, 610_000, 300)).toEqual([10 + 80, 20 + 160]);
    // What was withheld goes to no one when the orders end.
    await database.query('select simulation.pass_ten_minutes() from generate_series(1, 4)');
    expect(await count(`select count(*) from public.outbox_messages where status = 'over_budget'`)).toBe(0);
    expect(await count(`select count(*) from public.outbox_messages where kind = 'order_expired'`)).toBe(180);
  });

  test('behind the address of an attacker, who paid before orders and pays, and others can again when the window ends', async () => {
    const address = `'197.232.10.7'`;
    await letCustomersOrder(60, address, 5);
    const regulars = 40;
    // The attacker uses up everything that is left: calls, prompts, new phones and texts.
    const before = await dayOf();
    expect(before.refusals).toEqual({});
    await attack(400, address);
    const attacker = await dayOf(500_000, 600_000);
    expect(attacker.prompted).toBeLessThanOrEqual(300 + 2 * before.paid);
    expect(Object.keys(attacker.refusals)).toContain('too_many_orders');

    // A new customer is asked to wait for at most ten minutes, or to call.
    await database.query(`select simulation.visit(2001, ${address}, $1, '0721000001', '0721000001')`, [
      product,
    ]);
    expect((await dayOf(2001, 2001)).refusals).toEqual({ too_many_orders: 1 });

    // Customers of the first burst order again with the same phones.
    await database.query(
      `select simulation.visit(1000 + n, ${address}, $1, ${phones(20)}, ${phones(20)})
       from (select n from simulation.visits where is_paid and n < 60 order by n limit $2::integer) as known`,
      [product, regulars],
    );
    expect(await dayOf(1000, 1999)).toEqual({ refusals: {}, placed: regulars, prompted: regulars, paid: 0 });
    await database.query(
      `select simulation.end_prompt(n, 'succeeded', '0') from generate_series(1000, 1999) as n`,
    );
    await database.query('select simulation.send_all()');
    expect(await paidWithoutMessages()).toBe(0);

    // The payments of neighbours, and the end of the window, let new customers order again.
    await letCustomersOrder(1, address, 5, { series: 21, from: 2002 });
    expect(await dayOf(2002, 2002)).toEqual({ refusals: {}, placed: 1, prompted: 1, paid: 1 });
    await database.query('select simulation.send_all()');
    expect(await paidWithoutMessages()).toBe(0);
  });

  test('a refusal says for how long, and how to reach the shop', async () => {
    await database.query('update public.store_settings set chat_phone = $1 where id', ['+254711222333']);
    try {
      await database.query(
        `insert into private.rate_limits (bucket, subject, window_start, hits)
         select name, '203.0.113.9', date_bin(within, clock_timestamp(), timestamptz '2000-01-01'), 100000 from private.limits`,
      );
      const refusal = await asVisitor(
        'track_order',
        { tracking_number: 'JJ-20260101-1000' },
        '203.0.113.9',
      ).catch((error: Error) => error.message);
      expect(refusal).toMatch(
        /^Too many look-ups\. Please try again in (a minute|\d+ minutes), or call or WhatsApp us on 0700 000 000 \(WhatsApp 0711 222 333\)$/,
      );
    } finally {
      await database.query('update public.store_settings set chat_phone = support_phone where id');
    }
  });

  describe('a withheld message', () => {
    const withhold = async () => {
      await database.query(
        `insert into private.rate_limits (bucket, subject, window_start, hits)
         select name, '203.0.113.9', date_bin(within, clock_timestamp(), timestamptz '2000-01-01'), 1000
         from private.limits where name like 'unpaid_order_%'`,
      );
      await database.query(
        `select simulation.visit(n, '203.0.113.9', $1, ${phones(40)}, ${phones(40)}) from generate_series(1, 1) as n`,
        [product],
      );
      expect(await messages('text', 'over_budget')).toBe(1);
      expect(await messages('mail', 'over_budget')).toBe(1);
    };
    const all = () =>
      readColumn(
        `select kind || ' ' || channel || ' ' || status as line from public.outbox_messages order by 1`,
      );
    const sent = [
      'order_paid mail sent',
      'order_paid text sent',
      'order_received mail sent',
      'order_received text sent',
    ];

    test.each([
      ['a prompt', `select simulation.end_prompt(1, 'succeeded', '0')`, sent],
      [
        'money in another amount',
        `update public.orders set payment_status = 'needs_review' where id = (select order_id from simulation.visits)`,
        sent.map((line) => line.replace('paid', 'payment_held')).sort(),
      ],
    ])('is sent once when %s pays the order', async (_, payment, expected) => {
      await withhold();
      await database.query(payment);
      await database.query('select simulation.send_all()');
      expect(await all()).toEqual(expected);
      // Money that is reported again sends nothing more.
      await database.query(
        `update public.orders set payment_status = 'needs_review' where id = (select order_id from simulation.visits)`,
      );
      await database.query(
        `update public.orders set payment_status = 'paid', status = 'processing' where id = (select order_id from simulation.visits)`,
      );
      await database.query('select simulation.send_all()');
      expect((await all()).filter((line) => line.startsWith('order_received'))).toHaveLength(2);
    });

    test('is deleted when its order ends unpaid, and the customer is not mailed about the end', async () => {
      await withhold();
      await database.query('select simulation.end_prompt(1, $1, $2)', ['failed', '1032']);
      await database.query('select simulation.pass_ten_minutes() from generate_series(1, 4)');
      expect(
        await count(
          `select count(*) from public.orders as o join simulation.visits as v on v.order_id = o.id where o.status = 'cancelled'`,
        ),
      ).toBe(1);
      expect(await all()).toEqual([]);
    });

    test('counts in the budgets with its reason, and staff send all withheld ones together', async () => {
      await withhold();
      const { rows: budgets } = await queryAs(
        'staff',
        'select channel, over_budget::integer, reason from public.message_budgets() order by channel',
      );
      const reason = 'Not sent: too many unpaid orders from one network today';
      expect(budgets).toEqual([
        { channel: 'mail', over_budget: 1, reason },
        { channel: 'text', over_budget: 1, reason },
      ]);
      expect(
        await count(`select sum(value) from public.shop_metrics() where metric = 'messages_withheld'`),
      ).toBe(2);
      expect(await asStaff('send_withheld_messages', { channel: 'text' })).toEqual({
        sent: 1,
        withheld: 0,
      });
      expect(await asStaff('send_withheld_messages')).toEqual({ sent: 1, withheld: 0 });
      await database.query('select simulation.send_all()');
      expect(await all()).toEqual(sent.slice(2));
      expect(await asStaff('send_withheld_messages')).toEqual({ sent: 0, withheld: 0 });
    });

    test('stays withheld beyond the budget of the day', async () => {
      await withhold();
      await database.query('update public.store_settings set texts_per_day = 0, mails_per_day = 1 where id');
      expect(await asStaff('send_withheld_messages')).toEqual({ sent: 1, withheld: 1 });
      const refusal = await asStaff('send_withheld_messages').catch((error: Error) => error.message);
      expect(refusal).toBe("Today's budget is used up. Raise it under Settings, or send these tomorrow");
    });
  });

  test('paid orders do not use the half of the budget of visitors who have not paid', async () => {
    await database.query('update public.store_settings set texts_per_day = 40 where id');
    // Eight of ten pay.
    await letCustomersOrder(10, `'197.232.10.7'`, 5);
    await database.query('select simulation.send_all()');
    const [text] = await readRows<{ sent: number; without: number }>(
      `select private.sent_today('text') as sent, private.sent_without_priority('text') as without`,
    );
    expect(text).toEqual({ sent: 18, without: 2 });
  });

  test('an order that was paid counts for its networks, and no other', async () => {
    await letCustomersOrder(10, `'197.232.10.7'`, 5);
    const earned = async (network: string) =>
      count(`select private.allowance(l, '${network}') - l.allowed * private.allowance_factor('${network}')
             from private.limits as l where l.name = 'unpaid_order_texts'`);
    expect([
      await earned('197.232.10.7'),
      await earned('197.232.10.0/24'),
      await earned('197.232.11.0/24'),
    ]).toEqual([12, 12, 0]);
  });

  test('concurrent settlements of one network count every paid order', async () => {
    const network = randomUUID();
    await Promise.all(
      Array.from({ length: 20 }, () =>
        database.query('select private.count_paid_order(array[$1])', [network]),
      ),
    );
    expect(
      await count(
        `select sum(orders) from private.network_paid_orders where network = '${network}' and within = '1 day'`,
      ),
    ).toBe(20);
  });
});
