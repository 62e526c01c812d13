// Claims of jobs by processes. A hosted project bills every call of the payment function.
import { testDatabases } from '@jani-juice/backend/testing';
import { describe, expect, test } from 'vitest';
import { setUpShop } from '../steps.ts';

const actions = ['query-open', 'send-refunds', 'take-up-till', 'pull-statement'] as const;

describe.each(testDatabases())('on %s', (kind) => {
  const { database, asService, expireReservations } = setUpShop(kind);

  const claim = (action: string) => asService<boolean>('claim_payment_job', { action });
  const claimDueJobs = () => asService<string[]>('claim_due_jobs');
  /** Three processes claim concurrently. */
  const claims = async (action: string) => {
    const answers = await Promise.all([claim(action), claim(action), claim(action)]);
    return answers.filter(Boolean).length;
  };
  /** Number of windows with claims: two when one ended during the claims. */
  const windows = async (bucket: string, action: string) => {
    const counted = await database.query(
      'select from private.rate_limits where bucket = $1 and subject = $2',
      [bucket, action],
    );
    expect(counted.rowCount).toBeGreaterThan(0);
    return counted.rowCount;
  };
  const forget = () => database.query('delete from private.rate_limits');
  const isDue = async (action: string) => {
    const { rows } = await database.query<{ is_due: boolean }>('select private.is_job_due($1) as is_due', [
      action,
    ]);
    return rows[0]?.is_due;
  };

  test('calls fewer than 100,000 times a month while nothing is open, with any number of processes', async () => {
    await forget();
    for (const action of actions) {
      expect(await isDue(action)).toBe(false);
      let claimed = await claims(action);
      for (let poll = 0; poll < 10; poll += 1) claimed += await claims(action);
      expect(claimed).toBe(await windows('idle_jobs', action));
    }
    const { rows } = await database.query<{ calls_a_month: number }>(
      `select sum(extract(epoch from interval '31 days') / extract(epoch from length))::bigint as calls_a_month
       from (select distinct subject, window_end - window_start as length from private.rate_limits
             where bucket = 'idle_jobs') as job`,
    );
    expect(rows).toEqual([{ calls_a_month: 17_856 }]);
  });

  test('calls every few seconds while a payment is open, from one process at a time', async () => {
    await forget();
    await database.query(
      `insert into public.orders (tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_fee, total_amount)
       values ('JJ-20261121-0001', 'Wanjiku', 'wanjiku@mail.example', '+254712345678', 'Westlands', 100, 1100)`,
    );
    await database.query(
      `insert into public.payments (order_id, phone, charge_cents, status, checkout_request_id, next_query_at)
       select id, '254712345678', 1100, 'processing', 'ws_CO_1', now() - interval '1 second' from public.orders`,
    );
    expect(await isDue('query-open')).toBe(true);
    const elsewhere = await asService<string[]>('claim_due_jobs', { busy: ['query-open'] });
    expect(elsewhere, 'left to other processes').not.toContain('query-open');
    expect(await claims('query-open')).toBe(await windows('jobs', 'query-open'));
    const { rows } = await database.query(
      `select distinct extract(epoch from window_end - window_start)::int as seconds from private.rate_limits where bucket = 'jobs'`,
    );
    expect(rows).toEqual([{ seconds: 3 }]);
    await database.query(`update public.payments set next_query_at = now() + interval '1 minute' where true`);
    expect(await isDue('query-open')).toBe(false);
  });

  test('finds confirmations and callbacks that were not settled', async () => {
    expect(await isDue('take-up-till')).toBe(false);
    await database.query(
      `insert into public.payment_messages (source, body, received_at) values ('confirmation', '{}', now() - interval '1 minute')`,
    );
    expect(await isDue('take-up-till')).toBe(true);
    await database.query(
      `update public.payment_messages set outcome = 'matched' where source = 'confirmation'`,
    );
    expect(await isDue('take-up-till')).toBe(false);
  });

  test('pulls a registered statement every half hour', async () => {
    await asService('record_mpesa_registration', { kind: 'statement' });
    expect(await isDue('pull-statement')).toBe(true);
    const leased = await asService<{ id: number }>('lease_statement_pull');
    expect(await isDue('pull-statement')).toBe(false);
    await database.query(
      `update public.statement_pulls set outcome = 'complete', finished_at = now() - interval '31 minutes' where id = $1`,
      [leased.id],
    );
    expect(await isDue('pull-statement')).toBe(true);
  });

  test('ends reservations when one is due, from one process at a time', async () => {
    await forget();
    await database.query(`update public.payments set status = 'failed', next_query_at = null where true`);
    expect(await isDue('expire-reservations')).toBe(false);
    await database.query(
      `update public.orders set expires_at = now() - interval '1 second', reserved_until = null, expiry_limit = now() where true`,
    );
    expect(await isDue('expire-reservations')).toBe(true);
    const answers = await Promise.all([claimDueJobs(), claimDueJobs(), claimDueJobs()]);
    expect(answers.flat().filter((job) => job === 'expire-reservations')).toHaveLength(
      (await windows('jobs', 'expire-reservations')) ?? 0,
    );
    expect(await expireReservations()).toBe(1);
    expect(await isDue('expire-reservations')).toBe(false);
  });

  test('sends messages when one is due, from every process', async () => {
    // Without keys, notices are due.
    await asService('store_push_keys', { public_key: 'public', private_key: 'private' });
    await database.query('delete from private.outbox_queue');
    await claimDueJobs();
    expect(await claimDueJobs()).not.toContain('send-messages');
    await database.query(
      `with message as (
         insert into public.outbox_messages (order_id, kind, channel, recipient, order_number, tracking_number, customer_name)
         select id, 'order_paid', 'mail', 'wanjiku@mail.example', 'ORD-1', tracking_number, 'Wanjiku' from public.orders returning id
       )
       insert into private.outbox_queue (message_id, channel, due_at) select id, 'mail', now() from message
       on conflict (message_id) do update set due_at = now()`,
    );
    expect(await Promise.all([claimDueJobs(), claimDueJobs()])).toEqual([
      ['send-messages'],
      ['send-messages'],
    ]);
    await database.query(`update private.outbox_queue set due_at = now() + interval '1 minute' where true`);
    expect(await isDue('send-messages')).toBe(false);
    await database.query(
      `update public.outbox_messages
       set status = 'sending', sending_since = now() - interval '6 minutes', next_attempt_at = null where kind = 'order_paid'`,
    );
    expect(await isDue('send-messages')).toBe(true);
  });

  test('an unknown job is never claimed', async () => {
    expect(await claim('sweep-the-floor')).toBe(false);
  });
});
