// Limits and daily budgets of text messages and e-mails: unpaid orders cannot exhaust those of paying customers.
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { isExhaustive } from '../../../scripts/tests/test-depth.ts';
import { expectRefusal, makeProduct, type PlacedOrder } from '../shop-database.ts';
import { setUpShop } from '../steps.ts';

interface Leased {
  id: string;
  lease: string;
}

describe.each(testDatabases())('on %s', (kind) => {
  const shop = setUpShop(kind);
  const { database, callAs, asVisitor, asStaff, asService, queryAs, readRows, place, begin } = shop;
  let product: string;
  beforeAll(async () => {
    product = await makeProduct(database, 100_000);
  });
  beforeEach(async () => {
    await database.execute(`
      delete from private.rate_limits;
      delete from public.outbox_messages;
      delete from private.messages_sent;
    `);
    await setBudgets(300, 1000);
  });

  const setBudgets = (texts: number, mails: number) =>
    database.query('update public.store_settings set texts_per_day = $1, mails_per_day = $2', [texts, mails]);
  let customers = 0;
  /** Places an order of a new customer, as the shop itself or from an IP address. */
  const placeOrder = (address?: string) => {
    customers += 1;
    return place(product, {
      address,
      customer_phone: `07${String(customers).padStart(8, '0')}`,
      customer_email: `customer-${customers}@example.com`,
    });
  };
  const promptOwnPhone = (order: PlacedOrder, address?: string) =>
    begin(order, { phone: order.customer_phone, address });
  const markPaid = (order: PlacedOrder) =>
    database.query(`update public.orders set payment_status = 'paid', status = 'processing' where id = $1`, [
      order.id,
    ]);
  const lease = (channel: string, at_most = 100): Promise<Leased[]> =>
    readRows<Leased>('select * from public.lease_messages($1, $2)', [at_most, channel]);
  const beginMessage = ({ id, lease: held }: Leased) =>
    asService<number | null>('begin_message', { message_id: id, lease: held, body: 'Words', subject: null });
  const finish = ({ id }: Leased, attempt: number, outcome: string) =>
    asService<string | null>('finish_message', { message_id: id, attempt, outcome });
  /** Sends every due message of a channel. Returns their number. */
  const sendDue = async (channel: string): Promise<number> => {
    let sent = 0;
    for (const message of await lease(channel)) {
      const attempt = await beginMessage(message);
      if (attempt === null) continue;
      await finish(message, attempt, 'sent');
      sent += 1;
    }
    return sent;
  };
  /** Number of messages of a channel by status. */
  const statuses = async (channel: string): Promise<Record<string, number>> => {
    const { rows } = await database.query<{ status: string; count: number }>(
      'select status, count(*)::integer as count from public.outbox_messages where channel = $1 group by status',
      [channel],
    );
    return Object.fromEntries(rows.map(({ status, count }) => [status, count]));
  };
  const problems = async (channel: string): Promise<string[]> => {
    const { rows } = await database.query<{ problem: string }>(
      `select distinct problem from public.outbox_messages where channel = $1 and status = 'over_budget' order by 1`,
      [channel],
    );
    return rows.map(({ problem }) => problem);
  };
  const budgets = async () => {
    const { rows } = await queryAs<Record<string, unknown>>(
      'staff',
      `select channel, sent, sent_without_priority, per_day, over_budget::integer
       from public.message_budgets() order by channel desc`,
    );
    return rows;
  };
  const overBudget = async (channel: string): Promise<string> => {
    const { rows } = await database.query<{ id: string }>(
      `select id from public.outbox_messages where status = 'over_budget' and channel = $1 limit 1`,
      [channel],
    );
    return rows[0]?.id ?? '';
  };

  test('50 unpaid orders from one address send no text and no mail', async () => {
    let placed = 0;
    for (let count = 0; count < 50; count += 1) {
      await placeOrder('198.51.100.7').then(
        () => {
          placed += 1;
        },
        // Other limits may stop it earlier.
        () => {},
      );
    }
    expect(placed).toBeGreaterThan(0);
    expect(await statuses('text')).toEqual({});
    expect(await statuses('mail')).toEqual({});
    // A prompt sends both.
    await promptOwnPhone(await placeOrder('203.0.113.7'), '203.0.113.7');
    expect(await sendDue('text')).toBe(1);
    expect(await sendDue('mail')).toBe(1);
  });

  test('prompts from one address send at most ten texts and twenty mails a day, others still send theirs', async () => {
    let prompted = 0;
    for (let count = 0; count < 25; count += 1) {
      const order = await placeOrder();
      await promptOwnPhone(order, '198.51.100.7').then(
        () => {
          prompted += 1;
        },
        () => {},
      );
    }
    expect(prompted).toBeGreaterThan(10);
    expect(await statuses('text')).toEqual({ waiting: 10, over_budget: prompted - 10 });
    expect((await statuses('mail')).waiting).toBe(Math.min(prompted, 20));
    expect(await problems('text')).toEqual(['Not sent: too many unpaid orders from one network today']);
    await promptOwnPhone(await placeOrder(), '203.0.113.7');
    expect((await statuses('text')).waiting).toBe(11);
  });

  test('the addresses of one IPv6 /48 send at most eighty texts a day together', async () => {
    const counted = await Promise.all(
      Array.from({ length: 40 }, async (_, index) => {
        const address = `2001:db8:7:${index.toString(16)}00::1`;
        const answers: boolean[] = [];
        for (let count = 0; count < 3; count += 1) {
          const { is_within } = await database.transaction(async (session) => {
            await session.query(`select set_config('request.headers', $1, true)`, [
              JSON.stringify({ 'x-forwarded-for': address }),
            ]);
            const { rows } = await session.query<{ is_within: boolean }>(
              `select private.count_call('unpaid_order_texts') as is_within`,
            );
            return rows[0] as { is_within: boolean };
          });
          answers.push(is_within);
        }
        return answers;
      }),
    );
    expect(counted.flat().filter(Boolean)).toHaveLength(80);
  });

  test('unpaid orders of many networks use half of the budget, and paid orders still get their messages', async () => {
    await setBudgets(8, 1000);
    for (let network = 1; network <= 6; network += 1) {
      await promptOwnPhone(await placeOrder(), `198.51.${network}.7`);
    }
    expect(await sendDue('text')).toBe(4);
    expect(await statuses('text')).toEqual({ sent: 4, over_budget: 2 });
    expect(await problems('text')).toEqual([
      "Not sent: the half of today's budget of texts for visitors who have not paid is used up",
    ]);
    // The budget of mails is another one.
    expect(await sendDue('mail')).toBe(6);

    for (let count = 0; count < 5; count += 1) await markPaid(await placeOrder());
    expect(await sendDue('text')).toBe(4);
    expect(await statuses('text')).toEqual({ sent: 8, over_budget: 3 });
    expect(await problems('text')).toContain("Not sent: today's budget of texts is used up");
    expect(await budgets()).toEqual([
      { channel: 'text', sent: 8, sent_without_priority: 4, per_day: 8, over_budget: 3 },
      { channel: 'mail', sent: 6, sent_without_priority: 6, per_day: 1000, over_budget: 0 },
    ]);
  });

  test('newsletter confirmations have a twentieth of the budget, and take nothing from the half for visitors', async () => {
    await database.execute('delete from private.newsletter_mailed');
    await setBudgets(300, 25);
    for (const reader of ['one', 'two']) {
      await asVisitor('subscribe_to_newsletter', { email: `${reader}@example.com` });
    }
    const refused = await expectRefusal(
      asVisitor('subscribe_to_newsletter', { email: 'three@example.com' }),
      429,
      'too_many_subscriptions',
    );
    expect(refused.message).toMatch(/^Too many subscriptions today/);
    await markPaid(await placeOrder());
    expect(await sendDue('mail')).toBe(3);
    expect(await budgets()).toMatchObject([{}, { channel: 'mail', sent: 3, sent_without_priority: 0 }]);
    const { rows } = await database.query(
      `select kind, status from public.outbox_messages where channel = 'mail' order by kind, status`,
    );
    expect(rows).toEqual([
      { kind: 'newsletter_confirmation', status: 'sent' },
      { kind: 'newsletter_confirmation', status: 'sent' },
      { kind: 'order_paid', status: 'sent' },
    ]);
  });

  test('processes that begin messages concurrently stay within the budget', async () => {
    await setBudgets(5, 1000);
    for (let count = 0; count < 12; count += 1) await markPaid(await placeOrder());
    const leased = await lease('text');
    const attempts = await Promise.all(leased.map(beginMessage));
    expect(attempts.filter((attempt) => attempt === 1)).toHaveLength(5);
    expect(attempts.filter((attempt) => attempt === null)).toHaveLength(7);
  });

  test.runIf(kind === 'postgresql')(
    'paid messages that begin concurrently do not wait for each other',
    async () => {
      await setBudgets(20, 1000);
      for (let count = 0; count < 5; count += 1) await markPaid(await placeOrder());
      const [first, ...others] = await lease('text');
      // Only the first message of a day makes the others wait.
      expect(first && (await beginMessage(first))).toBe(1);
      // Each transaction stays open until the last message has begun.
      const beginInTurn = ([next, ...rest]: Leased[]): Promise<void> =>
        database.transaction(async (session) => {
          if (!next) return;
          await session.execute(`set local lock_timeout = '1s'`);
          const { rows } = await session.query<{ attempt: number | null }>(
            'select public.begin_message($1::uuid, $2::uuid, $3) as attempt',
            [next.id, next.lease, 'Words'],
          );
          expect(rows).toEqual([{ attempt: 1 }]);
          await beginInTurn(rest);
        });
      await beginInTurn(others);
      expect((await budgets())[0]?.sent).toBe(5);
    },
  );

  test('messages of visitors that begin concurrently stay within their half', async () => {
    await setBudgets(8, 1000);
    for (let count = 0; count < 8; count += 1) await promptOwnPhone(await placeOrder());
    const attempts = await Promise.all((await lease('text')).map(beginMessage));
    expect(attempts.filter((attempt) => attempt === 1)).toHaveLength(4);
  });

  test('a budget that is lowered during the day counts what was sent before', async () => {
    await setBudgets(12, 1000);
    for (let count = 0; count < 12; count += 1) await markPaid(await placeOrder());
    const leased = await lease('text');
    await Promise.all(leased.slice(0, 6).map(beginMessage));
    await setBudgets(7, 1000);
    const attempts: (number | null)[] = [];
    for (const message of leased.slice(6)) attempts.push(await beginMessage(message));
    expect(attempts).toEqual([1, null, null, null, null, null]);
  });

  test('a budget of 0 sends nothing, and the next day has its own', async () => {
    await setBudgets(0, 1);
    await markPaid(await placeOrder());
    await markPaid(await placeOrder());
    expect(await sendDue('text')).toBe(0);
    expect(await sendDue('mail')).toBe(1);
    await database.query('update private.messages_sent set day = day - 1 where day is not null');
    await markPaid(await placeOrder());
    expect(await sendDue('mail')).toBe(1);
  });

  test('refused messages are returned to the budget, possibly sent ones are not', async () => {
    const sent = async () => (await budgets())[1]?.sent;
    const counts: unknown[] = [];
    for (const outcome of ['sent', 'unsure', 'refused', 'failed']) {
      await markPaid(await placeOrder());
      const [message] = await lease('mail');
      const attempt = message ? await beginMessage(message) : null;
      if (!message || attempt === null) throw new Error('no message was begun');
      const before = await sent();
      await finish(message, attempt, outcome);
      counts.push([outcome, before, await sent()]);
      // Reported twice.
      await finish(message, attempt, outcome);
      counts.push([outcome, before, await sent()]);
    }
    expect(counts).toEqual([
      ['sent', 1, 1],
      ['sent', 1, 1],
      ['unsure', 2, 2],
      ['unsure', 2, 2],
      ['refused', 3, 2],
      ['refused', 3, 2],
      ['failed', 3, 2],
      ['failed', 3, 2],
    ]);
  });

  test('staff can send messages that were over budget once there is budget again', async () => {
    await setBudgets(2, 1000);
    for (let count = 0; count < 2; count += 1) await promptOwnPhone(await placeOrder());
    await markPaid(await placeOrder());
    expect(await sendDue('text')).toBe(2);
    const message_id = await overBudget('text');
    const refusal = await expectRefusal(
      asStaff('send_message_again', { message_id }),
      409,
      'message_budget_used_up',
    );
    expect(refusal.message).toBe(
      "Today's budget of texts is used up. Raise it under Settings, or send this tomorrow",
    );
    expect(await statuses('text')).toEqual({ sent: 2, over_budget: 1 });
    await setBudgets(3, 1000);
    await asStaff('send_message_again', { message_id });
    // The visitors' half is used up, but staff may use the whole budget.
    expect(await sendDue('text')).toBe(1);
    expect(await statuses('text')).toEqual({ sent: 3 });
  });

  test('a message whose kind is switched off, or whose day is over, is not sent', async () => {
    const [off, late, fine] = [await placeOrder(), await placeOrder(), await placeOrder()];
    await database.query(`update public.orders set payment_status = 'needs_review' where id = $1`, [off.id]);
    await markPaid(late);
    await markPaid(fine);
    await database.query(
      `update public.outbox_messages set give_up_at = now() - interval '1 minute' where order_id = $1`,
      [late.id],
    );
    const turn = (isOn: boolean) =>
      database.query(
        `update public.message_templates set is_on = $1 where kind = 'order_payment_held' and channel = 'text'`,
        [isOn],
      );
    await turn(false);
    expect(await sendDue('text')).toBe(1);
    await turn(true);
    const { rows } = await database.query(
      `select order_id, status, problem from public.outbox_messages where channel = 'text' and status <> 'sent' order by problem`,
    );
    expect(rows).toEqual([
      {
        order_id: late.id,
        status: 'failed',
        problem: 'Given up after a day: nothing could be sent in that time',
      },
      { order_id: off.id, status: 'failed', problem: 'Messages of this kind are switched off' },
    ]);
    expect((await budgets())[0]?.sent).toBe(1);
  });

  describe('leasing the next texts reads a few rows, however many messages wait,', () => {
    const counted = ['public.outbox_messages', 'private.outbox_queue', 'public.message_templates'];
    const analyze = () => database.execute(`analyze ${counted.join(', ')}`);
    /** Adds messages, a tenth of them texts. */
    const fill = (status: string, count: number) =>
      database.query(
        `with added as (
           insert into public.outbox_messages
             (order_id, kind, channel, recipient, order_number, tracking_number, customer_name, status, next_attempt_at)
           select gen_random_uuid(), 'order_paid', case when n % 10 = 0 then 'text' else 'mail' end, 'a@b.example', '', '', '', $1,
             case when $1 = 'waiting' then now() end
           from generate_series(1, $2::integer) as n
           returning id, channel, status
         )
         insert into private.outbox_queue (message_id, channel, due_at)
         select id, channel, now() - interval '1 hour' from added where status = 'waiting'`,
        [status, count],
      );
    /** After five calls the database chooses a generic plan, by its current statistics. */
    const choosePlan = async () => {
      for (let count = 0; count < 6; count += 1) await lease('text', 8);
    };
    const takeTexts = () =>
      database.transaction(async (session) => {
        const count = async () => {
          const { rows } = await session.query<{ count: number }>(
            `select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::integer as count
             from pg_stat_xact_all_tables where relid = any ('{${counted.join(',')}}'::regclass[])`,
          );
          return rows[0]?.count ?? 0;
        };
        const before = await count();
        const { rowCount } = await session.query(`select public.lease_messages(8, 'text')`);
        const read = (await count()) - before;
        await session.query('select count(to_jsonb(m)) from public.outbox_messages as m');
        return { rowCount, read, readByScan: (await count()) - before - read };
      });

    const circumstances: [string, () => Promise<unknown>][] = [
      ['without statistics', () => fill('waiting', 3000)],
      [
        'with statistics and plans of empty tables',
        async () => {
          await analyze();
          await choosePlan();
          await fill('waiting', 3000);
        },
      ],
      [
        'with statistics and plans of ten messages',
        async () => {
          await fill('waiting', 100);
          await analyze();
          await choosePlan();
          await fill('waiting', 2900);
        },
      ],
      [
        'with statistics of waiting messages',
        async () => {
          await fill('waiting', 3000);
          await analyze();
        },
      ],
      [
        'with statistics of messages that are not due',
        async () => {
          await fill('waiting', 3000);
          await database.query(
            `update private.outbox_queue set due_at = now() + interval '1 hour' where true`,
          );
          await analyze();
          await choosePlan();
          await database.query(
            `update private.outbox_queue set due_at = now() - interval '1 hour' where true`,
          );
        },
      ],
      [
        'with statistics of messages that were sent',
        async () => {
          await fill('sent', 2900);
          await analyze();
          await choosePlan();
          await fill('waiting', 100);
        },
      ],
    ];
    test.each(isExhaustive ? circumstances : circumstances.slice(0, 2))('%s', async (_, prepare) => {
      await prepare();
      const taken = await takeTexts();
      expect(taken.rowCount).toBe(8);
      expect(taken.read).toBeGreaterThan(0);
      expect(taken.read).toBeLessThan(150);
      expect(taken.readByScan, 'rows of a scan are counted').toBe(3000);
    });
  });

  test('only staff read the budgets', async () => {
    await expectRefusal(callAs('customer', 'message_budgets'), 403, 'staff_only');
    expect(await asStaff('message_budgets')).toBeTruthy();
  });
});
