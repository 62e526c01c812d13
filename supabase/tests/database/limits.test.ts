// Limits per network: the networks of a call, their allowances, and refusals that do not roll back their counters.
import { createHash, randomUUID } from 'node:crypto';
import { asRole, testDatabases } from '@jani-juice/backend/testing';
import { beforeAll, describe, expect, test } from 'vitest';
import { expectRefusal, people } from '../shop-database.ts';
import { concurrently, settleAll, setUpShop } from '../steps.ts';

describe.each(testDatabases())('on %s', (kind) => {
  const { database, asVisitor, asService, readRows } = setUpShop(kind);
  beforeAll(async () => {
    await database.execute(`
      -- No window ends during the tests.
      insert into private.limits (name, allowed, within) values ('three calls', 3, '1000 days');
      -- Public, because only procedures of the public schema can be called by visitors.
      create function public.call_limited(limit_name text, subject text default '') returns boolean
        language sql volatile security definer set search_path = '' as 'select private.count_call($1, $2)';
      create function public.ask_limited(limit_name text) returns boolean
        language sql stable security definer set search_path = '' as 'select private.is_within_limit($1)';
      create function public.list_networks() returns text[]
        language sql stable security definer set search_path = '' as 'select private.caller_networks()';
      create function public.fail_counted(status integer) returns jsonb
      language plpgsql security definer set search_path = '' as $$
      declare
        is_counted boolean := private.count_call('three calls', 'failing');
        detail text;
        hint text;
      begin
        insert into public.categories (name) values ('Undone');
        if not is_counted then
          perform private.refuse(429, 'too_many', 'Too many');
        end if;
        perform private.refuse(fail_counted.status, 'not_today', 'Not today', '7');
        return null;
      exception when sqlstate 'PT000' then
        get stacked diagnostics detail = pg_exception_detail, hint = pg_exception_hint;
        return private.refusal_answer(sqlstate, sqlerrm, detail, hint);
      end
      $$;
      grant execute on all functions in schema public to anon;
    `);
  });

  const count = (address: string | undefined, subject = '') =>
    asVisitor<boolean>('call_limited', { limit_name: 'three calls', subject }, address);
  const repeat = async (times: number, work: () => Promise<boolean>) => {
    const answers: boolean[] = [];
    for (let time = 0; time < times; time += 1) answers.push(await work());
    return answers;
  };
  const forget = () => database.query('delete from private.rate_limits');

  test.each([
    ['IPv4', '203.0.113.7', ['203.0.113.7', '203.0.113.0/24']],
    [
      'the last of several addresses, which the nearest proxy added',
      '10.0.0.1, 203.0.113.7',
      ['203.0.113.7', '203.0.113.0/24'],
    ],
    ['IPv4 mapped into IPv6', '::ffff:203.0.113.7', ['203.0.113.7', '203.0.113.0/24']],
    ['the same in hexadecimal', '::ffff:cb00:7107', ['203.0.113.7', '203.0.113.0/24']],
    ['IPv6', '2001:db8:1:2:3:4:5:6', ['2001:db8:1:2::/64', '2001:db8:1::/56', '2001:db8:1::/48']],
    [
      'a high subnet',
      '2001:db8:1:ab12::1',
      ['2001:db8:1:ab12::/64', '2001:db8:1:ab00::/56', '2001:db8:1::/48'],
    ],
    ['an address with a zone', 'fe80::1%eth0', ['fe80::/64', 'fe80::/56', 'fe80::/48']],
    ['an address with many spaces', `203.0.113.7${' '.repeat(1000)}`, ['203.0.113.7', '203.0.113.0/24']],
    ['words', 'not an address', ['unknown']],
    ['an empty header', '', ['unknown']],
    ['an impossible address', '203.0.113.256', ['unknown']],
    ['100,000 digits', '9'.repeat(100_000), ['unknown']],
  ])('reads the networks of %s', async (_, address, expected) => {
    const { rows } = await asRole(
      database,
      { role: 'anon' },
      (session) => session.query<{ found: string[] }>('select public.list_networks() as found'),
      { request: { headers: { 'x-forwarded-for': address } } },
    );
    expect(rows[0]?.found).toEqual(expected);
  });

  test.each(['', 'no JSON', '[]', '{}'])('finds no readable network in the headers %j', async (headers) => {
    const rows = await database.transaction(async (session) => {
      await session.query(`select set_config('request.headers', $1, true)`, [headers]);
      return (await session.query<{ found: string[] }>('select public.list_networks() as found')).rows;
    });
    expect(rows[0]?.found).toEqual(headers === 'no JSON' ? ['unknown'] : []);
  });

  const token = 'a'.repeat(64);
  const networksOf = async (person: 'visitor' | 'service', headers: Record<string, string>) => {
    const { rows } = await asRole(
      database,
      people[person],
      (session) => session.query<{ found: string[] }>('select public.list_networks() as found'),
      { request: { headers } },
    );
    return rows[0]?.found[0];
  };

  test('clients cannot choose their IP address on a hosted project', async () => {
    const seen = { 'cf-connecting-ip': '203.0.113.7' };
    expect(await networksOf('visitor', { ...seen, 'x-forwarded-for': '198.51.100.1' })).toBe('203.0.113.7');
    expect(await networksOf('visitor', { ...seen, 'x-visitor-address': '198.51.100.1' })).toBe('203.0.113.7');
    const forged = { ...seen, 'x-visitor-address': '198.51.100.1', 'x-visitor-token': token };
    expect(await networksOf('visitor', forged)).toBe('203.0.113.7');
  });

  test("the shop's own servers send the IP address of their visitor", async () => {
    const named = { 'cf-connecting-ip': '203.0.113.7', 'x-visitor-address': '198.51.100.1' };
    await asService('register_storefront', {
      token_hash: createHash('sha256').update(token).digest('hex'),
    });
    expect(await networksOf('visitor', { ...named, 'x-visitor-token': token })).toBe('198.51.100.1');
    expect(await networksOf('visitor', { ...named, 'x-visitor-token': `${token}a` })).toBe('203.0.113.7');
    // The secret key needs no token, and calls without a visitor are the shop's own.
    expect(await networksOf('service', named)).toBe('198.51.100.1');
    expect(await networksOf('service', { 'cf-connecting-ip': '203.0.113.7' })).toBeUndefined();
  });

  test('stores the tokens of the last five keys', async () => {
    for (let key = 0; key < 7; key += 1) {
      await asService('register_storefront', { token_hash: String(key).repeat(64) });
    }
    expect(await readRows('select count(*) from private.storefront_tokens')).toEqual([{ count: 5 }]);
  });

  test('a call without an address belongs to the shop and is never limited', async () => {
    await forget();
    expect(await repeat(5, () => count(undefined))).toEqual(Array(5).fill(true));
    const { rowCount } = await database.query('select from private.rate_limits');
    expect(rowCount).toBe(0);
  });

  test('an unknown limit is an error, also for the shop itself', async () => {
    await expect(asService('call_limited', { limit_name: 'no such limit' })).rejects.toThrow();
  });

  test('an address has its allowance, which does not limit another address of its /24', async () => {
    await forget();
    expect(await repeat(5, () => count('192.0.2.1'))).toEqual([true, true, true, false, false]);
    expect(await repeat(4, () => count('192.0.2.2'))).toEqual([true, true, true, false]);
    const within = (address: string) =>
      asVisitor<boolean>('ask_limited', { limit_name: 'three calls' }, address);
    expect([await within('192.0.2.1'), await within('192.0.2.3')]).toEqual([false, true]);
  });

  test('all addresses of a /24 together have eight times as many', async () => {
    await forget();
    let host = 0;
    const answers = await repeat(30, () => {
      host += 1;
      return count(`198.51.100.${host}`);
    });
    expect(answers.filter(Boolean)).toHaveLength(24);
    expect(await count('198.51.101.1')).toBe(true);
  });

  test('a /56 has twice the allowance of a /64, a /48 eight times', async () => {
    await forget();
    const from = (...subnets: string[]) => {
      let turn = 0;
      return () => {
        turn += 1;
        return count(`2001:db8:9:${subnets[turn % subnets.length]}::1`);
      };
    };
    const sameSite = await repeat(10, from('101', '102', '103', '104'));
    expect(sameSite.filter(Boolean)).toHaveLength(6);
    let subnet = 0;
    const others = await repeat(100, () => {
      subnet += 1;
      return count(`2001:db8:9:${(subnet * 256 + 0x1000).toString(16)}::1`);
    });
    expect(others.filter(Boolean)).toHaveLength(24 - 6);
    expect(await count('2001:db8:a::1')).toBe(true);
  });

  test('a refused address does not use up the allowance of its network', async () => {
    await forget();
    await repeat(50, () => count('203.0.113.1'));
    expect(await count('203.0.113.2')).toBe(true);
    expect(await readRows(`select subject, hits from private.rate_limits order by subject`)).toEqual([
      { subject: '203.0.113.0/24', hits: 4 },
      { subject: '203.0.113.1', hits: 3 },
      { subject: '203.0.113.2', hits: 1 },
    ]);
  });

  test('counts each subject separately, and calls without a subject', async () => {
    await forget();
    expect(await repeat(4, () => count('192.0.2.1', 'order 1'))).toEqual([true, true, true, false]);
    expect(await count('192.0.2.1', 'order 2')).toBe(true);
    expect(await count('192.0.2.1')).toBe(true);
    expect(await count('192.0.3.1', 'order 1')).toBe(true);
  });

  test('a returned error rolls back the work but not the counter, and equals a raised one', async () => {
    await forget();
    const fail = () => asVisitor('fail_counted', { status: 409 }, '192.0.2.1');
    for (let time = 0; time < 3; time += 1) {
      const error = await expectRefusal(fail(), 409, 'not_today');
      expect([error.message, error.hint]).toEqual(['Not today', '7']);
    }
    await expectRefusal(fail(), 429, 'too_many');
    const { rowCount } = await database.query(`select from public.categories where name = 'Undone'`);
    expect(rowCount).toBe(0);
  });

  test('deletes counters when their window has ended, and not before', async () => {
    await forget();
    await database.query(
      `insert into private.limits (name, allowed, within) values ('in a moment', 1, '1 second'), ('in a day', 1, '1 day')`,
    );
    for (const limit of ['in a moment', 'in a day']) {
      await asVisitor('call_limited', { limit_name: limit }, '192.0.2.1');
    }
    await expect
      .poll(async () => {
        await asService('forget_old_rows');
        const { rows } = await database.query<{ bucket: string }>(
          'select distinct bucket from private.rate_limits',
        );
        return rows.map(({ bucket }) => bucket);
      })
      .toEqual(['in a day']);
  });

  describe('inquiries', () => {
    const insert = (rows: string[], address?: string) =>
      asRole(
        database,
        people.visitor,
        (session) =>
          session.query(
            `insert into public.inquiries (name, email, message)
             select 'Amina', email, 'Mna ndizi?' from json_array_elements_text($1) as email`,
            [JSON.stringify(rows)],
          ),
        address ? { request: { headers: { 'x-forwarded-for': address } } } : {},
      );
    const one = ['amina@example.com'];

    test('are limited to 30 per network in ten minutes', async () => {
      await database.query(`update private.limits set within = '1000 days' where name = 'inquiries'`);
      try {
        for (let n = 0; n < 30; n += 1) await insert(one, '192.0.2.40');
        await expectRefusal(insert(one, '192.0.2.40'), 429, 'too_many_inquiries');
        await insert(one, '192.0.2.41');
      } finally {
        await database.query(`update private.limits set within = '10 minutes' where name = 'inquiries'`);
      }
    });

    test('are limited to 100 per network and day', async () => {
      await database.query(
        `update private.limits set within = '1000 days', allowed = 1000 where name = 'inquiries'`,
      );
      await database.query(`update private.limits set within = '1000 days' where name = 'inquiries_of_day'`);
      try {
        for (let n = 0; n < 100; n += 1) await insert(one, '192.0.2.50');
        await expectRefusal(insert(one, '192.0.2.50'), 429, 'too_many_inquiries');
        await insert(one, '192.0.2.51');
      } finally {
        await database.query(
          `update private.limits set within = '10 minutes', allowed = 30 where name = 'inquiries'`,
        );
        await database.query(`update private.limits set within = '1 day' where name = 'inquiries_of_day'`);
      }
    });

    test('are inserted one at a time by visitors', async () => {
      await expectRefusal(insert([...one, ...one], '192.0.2.42'), 400, 'too_many_rows');
      await insert(one, '192.0.2.42');
      await insert([...one, ...one]);
    });

    test.each(['a@b', 'x'.repeat(1_000_000), `${'a@b.'.repeat(250_000)}c`])(
      'need an email address (case %#)',
      async (email) => {
        await expectRefusal(insert([email], '192.0.2.43'), 400, 'email_invalid');
      },
    );
  });

  test('every limit belongs to an existing call', async () => {
    const add = (allowed: number, within: string) =>
      database.query('insert into private.limits values ($1, $2, $3)', [randomUUID(), allowed, within]);
    await expect(add(0, '1 minute')).rejects.toThrow(/allows at least one/);
    await expect(add(1, '0')).rejects.toThrow(/has a window/);
    await add(1, '1 minute');
  });
});

describe.runIf(testDatabases().includes('postgresql'))('concurrently on PostgreSQL', () => {
  const { database, asVisitor, track } = setUpShop('postgresql');
  beforeAll(async () => {
    await database.execute(`
      insert into private.limits (name, allowed, within) values ('ten calls', 10, '1000 days');
      create function public.call_limited() returns boolean
        language sql volatile security definer set search_path = '' as 'select private.count_call(''ten calls'')';
      grant execute on function public.call_limited to anon;
    `);
  });

  test('of 160 calls from 20 addresses of one network, exactly its allowance succeeds', async () => {
    const answers = await concurrently(160, (index) =>
      asVisitor<boolean>('call_limited', {}, `192.0.2.${index % 20}`),
    );
    expect(answers.filter(Boolean)).toHaveLength(80);
  });

  test('of the wrong digits of one network for different orders, exactly its allowance is compared', async () => {
    await database.execute(`
      update private.limits set allowed = 20, within = '1000 days' where name = 'digits';
      update private.limits set allowed = 1000 where name in ('order_lookups', 'orders_looked_up');
    `);
    const outcomes = await settleAll(80, (index) =>
      track({ tracking_number: `JJ-20260101-${1000 + index}` }, { phone_last_four: '1234' }, '198.51.100.7'),
    );
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(20);
  });
});
