// Search of deliveries and inquiries: literal, in the listed columns, in pages, for staff only, and fast.
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeAll, describe, expect, test } from 'vitest';
import { expectRefusal, type Person } from '../shop-database.ts';
import { setUpShop } from '../steps.ts';

interface Found {
  id: string;
  created_at: string;
}

/** More rows than a search scans before it uses the index. */
const many = 4_000;

describe.each(testDatabases())('on %s', (kind) => {
  const { database, queryAs } = setUpShop(kind);
  beforeAll(async () => {
    // The searched rows are the oldest, beyond the newest rows that a search scans.
    await database.execute(`
      insert into public.orders
        (order_number, tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_fee, total_amount)
      select 'N-' || n, 'JJ-20261121-' || (10000 + n),
        case n when 1 then 'Zawadi 100%' when 2 then 'Zawadi_b' when 3 then 'Zawadi*c' when 4 then 'ZAWADI \\d' else 'Customer ' || n end,
        'zuri' || n || '@mail.example', '+254712345678', 'Karen', 100, 100
      from generate_series(1, ${many}) as n;
      insert into public.deliveries (order_id, delivery_status, delivery_person, created_at)
      select id, case when substr(order_number, 3)::integer % 2 = 0 then 'assigned' else 'pending' end,
        case when order_number in ('N-7', 'N-8') then 'Xavier' when substr(order_number, 3)::integer % 2 = 0 then 'Otieno' end,
        now() - make_interval(mins => ${many} - substr(order_number, 3)::integer / 10)
      from public.orders;
      insert into public.inquiries (name, email, subject, message, created_at)
      select case n when 1 then 'Zawadi' else 'Visitor ' || n end,
        case n when 2 then 'zawadi@mail.example' else 'visitor' || n || '@mail.example' end,
        case n when 3 then 'About ZAWADI' when 4 then null else 'Question ' || n end, 'zawadi', now() - make_interval(mins => ${many} - n / 10)
      from generate_series(1, ${many}) as n;
      insert into public.outbox_messages
        (kind, event_key, channel, recipient, order_number, tracking_number, customer_name, status, next_attempt_at, created_at)
      select 'test_message', n::text, 'mail', 'sort@mail.example', 'ORD-' || n * 7 % 300, '', 'Person ' || n % 20,
        (array['waiting', 'sending', 'sent', 'failed', 'unsure', 'over_budget'])[1 + n % 6], case when n % 6 = 0 then now() end,
        now() - make_interval(mins => n / 10)
      from generate_series(1, 300) as n;
    `);
  });

  const ask = async <Row>(sql: string, parameters: unknown[] = [], person: Person = 'staff') =>
    (await queryAs<Row>(person, sql, parameters)).rows;
  /** Order numbers of the found deliveries. */
  const deliveries = async (search: string | null, status: string | null = null) =>
    (
      await ask<{ number: string }>(
        `select o.order_number as number from public.search_deliveries($1, $2, page_size => 1000) as d
         join public.orders as o on o.id = d.order_id`,
        [search, status],
      )
    ).map(({ number }) => number);
  const inquiries = async (search: string) =>
    (
      await ask<{ name: string }>('select name from public.search_inquiries($1, page_size => 1000)', [search])
    ).map(({ name }) => name);

  test.each([
    ['zawadi', ['N-4', 'N-3', 'N-2', 'N-1']],
    [' ZAWADI  ', ['N-4', 'N-3', 'N-2', 'N-1']],
    ['xav', ['N-8', 'N-7']],
    [
      'n-123',
      [
        'N-1239',
        'N-1238',
        'N-1237',
        'N-1236',
        'N-1235',
        'N-1234',
        'N-1233',
        'N-1232',
        'N-1231',
        'N-1230',
        'N-123',
      ],
    ],
    ['100%', ['N-1']],
    ['i_b', ['N-2']],
    ['i*c', ['N-3']],
    ['\\d', ['N-4']],
    ['%', ['N-1']],
    ['zuri12@', ['N-12']],
    ["'; drop table", []],
    ['xavier n-7', ['N-7']],
    // Only the exact order number: N-71 and N-712 are others.
    ['jj-20261121-10007', ['N-7']],
  ])('finds exactly the deliveries with %j in any column', async (search, found) => {
    expect((await deliveries(search)).sort()).toEqual([...found].sort());
  });

  test('filters by exact status, with and without a search', async () => {
    expect((await deliveries('zawadi', 'assigned')).sort()).toEqual(['N-2', 'N-4']);
    expect(await deliveries('zawadi', 'failed')).toEqual([]);
    expect(await deliveries('', 'assigned')).toHaveLength(1000);
    expect(await deliveries(null, 'assign')).toEqual([]);
  });

  test.each([
    ['zawadi', ['Visitor 2', 'Visitor 3', 'Zawadi']],
    ['visitor 1234', ['Visitor 1234']],
    ['_', []],
  ])('finds inquiries with %j in name, email address or subject, newest first', async (search, found) => {
    expect((await inquiries(search)).sort()).toEqual(found);
  });

  test.each(['', 'visitor 1', 'no such inquiry'])(
    'gives unread inquiries with %j once, oldest first, in pages',
    async (search) => {
      await database.query(`update public.inquiries set is_read = right(name, 1) in ('2', '5')`);
      const seen: Found[] = [];
      for (;;) {
        const last = seen.at(-1);
        const page = await ask<Found>(
          `select id, created_at::text from public.search_inquiries(
             search => $1, before_created_at => $2, before_id => $3, page_size => 300, unread => true)`,
          [search, last?.created_at ?? null, last?.id ?? null],
        );
        seen.push(...page);
        if (page.length < 300) break;
      }
      const expected = await ask<Found>(
        `select id, created_at::text from public.inquiries as t
         where not is_read and concat_ws('|', t.name, t.email, t.subject) ilike '%' || $1 || '%'
         order by t.created_at, t.id`,
        [search],
      );
      expect(expected.length > 300).toBe(search !== 'no such inquiry');
      expect(seen).toEqual(expected);
    },
  );

  describe.each([
    ['search_inquiries', 'inquiries', '', 'name', 'lower(t.name)'],
    ['search_inquiries', 'inquiries', 'question 39', '-email', 'lower(t.email) desc'],
    ['search_inquiries', 'inquiries', '', 'subject', `nullif(lower(trim(t.subject)), '')`],
    ['search_inquiries', 'inquiries', '', '-status', 't.is_read desc'],
    ['search_inquiries', 'inquiries', 'visitor 1', 'date', 't.created_at, t.id'],
    ['search_messages', 'outbox_messages', '', 'customer', 'lower(t.customer_name)'],
    ['search_messages', 'outbox_messages', 'sort', '-order', 'substr(t.order_number, 5)::integer desc'],
    [
      'search_messages',
      'outbox_messages',
      '',
      'status',
      `array_position(array['failed', 'unsure', 'over_budget', 'waiting', 'sending', 'sent'], t.status)`,
    ],
  ])('%s', (procedure, table, search, sort, expression) => {
    test(`sorts those with ${JSON.stringify(search)} by ${sort} in pages, the newest first among equals`, async () => {
      const seen: string[] = [];
      let last: Found | undefined;
      // A page of its own for the first row, then pages that end anywhere.
      for (const size of [1, 170, 170, 1000, 1000, 1000, 1000]) {
        const page = await ask<Found>(
          `select id, created_at::text from public.${procedure}(
             search => $1, before_created_at => $2, before_id => $3, page_size => $4, sort => $5)`,
          [search, last?.created_at ?? null, last?.id ?? null, size, sort],
        );
        seen.push(...page.map(({ id }) => id));
        last = page.at(-1) ?? last;
      }
      const expected = await ask<Found>(
        `select t.id from public.${table} as t where $1 = '' or lower(to_jsonb(t)::text) like '%' || $1 || '%'
         order by ${expression} nulls last, t.created_at desc, t.id desc`,
        [search],
      );
      expect(expected.length).toBeGreaterThan(10);
      expect(seen).toEqual(expected.map(({ id }) => id));
    });
  });

  test('sorts the newest 500 of what a search finds', async () => {
    const sorted = await ask<Found>(
      `select id from public.search_inquiries('question', page_size => 1000, sort => 'name')`,
    );
    const expected = await ask<Found>(
      `select newest.id from public.search_inquiries('question', page_size => 500) as newest order by lower(newest.name)`,
    );
    expect(expected).toHaveLength(500);
    expect(sorted).toEqual(expected);
  });

  test.each([
    ['WANJIKU', 'wanjiku'],
    ["Ng'ang'a", 'nganga'],
    ['Wanjikũ', 'wanjiku'],
    ['Ng’ang’a É', 'nganga e'],
    ['Mango 🥭', 'mango 🥭'],
    ['', ''],
  ])('reads %j as %j', async (written, read) => {
    expect((await database.query('select private.without_accents($1) as read', [written])).rows).toEqual([
      { read },
    ]);
  });

  describe.each([
    ['search_deliveries', 'deliveries', ['', 'Otieno', 'n-1', 'n-390']],
    ['search_inquiries', 'inquiries', ['', 'visitor', 'visitor 1', 'question 39']],
  ])('%s', (procedure, table, searches) => {
    test.each(searches)('with %j returns every row once, newest first, in pages', async (search) => {
      const seen: Found[] = [];
      for (;;) {
        const last = seen.at(-1);
        const page = await ask<Found>(
          `select id, created_at::text from public.${procedure}(
             search => $1, before_created_at => $2, before_id => $3, page_size => 300)`,
          [search, last?.created_at ?? null, last?.id ?? null],
        );
        seen.push(...page);
        if (page.length < 300) break;
      }
      const condition =
        table === 'deliveries'
          ? `concat_ws('|', t.delivery_person, (select customer_name || '|' || order_number from public.orders as o where o.id = t.order_id))`
          : `concat_ws('|', t.name, t.email, t.subject)`;
      const expected = await ask<Found>(
        `select id, created_at::text from public.${table} as t where ${condition} ilike '%' || $1 || '%'
         order by t.created_at desc, t.id desc`,
        [search],
      );
      expect(expected.length).toBeGreaterThan(10);
      expect(seen).toEqual(expected);
    });

    test('is for staff only', async () => {
      const call = `select from public.${procedure}('zawadi')`;
      for (const person of ['customer', 'former staff', 'half-way staff'] as const) {
        await expectRefusal(ask(call, [], person), 403, 'staff_only');
      }
      await expect(ask(call, [], 'visitor')).rejects.toMatchObject({ code: '42501' });
      expect((await ask(call, [], 'service')).length).toBeGreaterThan(0);
    });

    test('returns at most a thousand rows, and at least one', async () => {
      const count = async (size: number | null) =>
        (await ask(`select from public.${procedure}(page_size => $1)`, [size])).length;
      expect([await count(5000), await count(0), await count(null)]).toEqual([1000, 1, 50]);
    });
  });
});
