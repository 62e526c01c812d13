// Metrics of the shop: their values, and access with the secret key only.
import { testDatabases } from '@jani-juice/backend/testing';
import { describe, expect, test } from 'vitest';
import { setUpShop } from '../steps.ts';

describe.each(testDatabases())('on %s', (kind) => {
  const { database } = setUpShop(kind);

  const read = async (role = 'service_role') => {
    const { rows } = await database.transaction(
      (session) =>
        session.query<{ metric: string; label: string | null; value: number }>(
          'select * from public.shop_metrics()',
        ),
      { settings: { role } },
    );
    return Object.fromEntries(
      rows.map(({ metric, label, value }) => [label === null ? metric : `${metric} ${label}`, value]),
    );
  };

  test('can be read with the secret key only', async () => {
    for (const role of ['anon', 'authenticated'])
      await expect(read(role)).rejects.toThrow('permission denied');
    expect(await read()).toMatchObject({ 'payments_open processing': 0, prompts_paused: 0 });
  });

  test('counts open, settled and doubtful payments, callbacks, refunds, messages and backups', async () => {
    const { rows } = await database.query<{ id: string }>(
      `insert into public.orders (tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_fee, total_amount)
       select 'JJ-20261121-000' || n, 'Wanjiku', 'wanjiku@mail.example', '+254712345678', 'Westlands', 100, 1100
       from generate_series(1, 4) as n returning id`,
    );
    const statuses = ['initiating', 'processing', 'review', 'completed'];
    for (const [index, { id }] of rows.entries()) {
      const status = statuses[index] ?? '';
      await database.query(
        `insert into public.payments (order_id, phone, charge_cents, status, receipt, created_at, completed_at)
         values ($1, '+254712345678', 1100, $2, $3, now() - interval '10 minutes', $4::timestamptz)`,
        [id, status, status === 'completed' ? 'QKR1' : null, status === 'completed' ? '2026-01-01' : null],
      );
    }
    await database.query(
      `update public.payments set completed_at = now() - interval '1 hour' where status = 'completed'`,
    );
    await database.query(
      `insert into public.payment_messages (source, body, outcome, received_at)
       values ('callback', '{}', 'settled', now()), ('callback', '{}', null, now() - interval '1 hour'),
         ('confirmation', '{}', null, now() - interval '1 hour'), ('confirmation', '{}', null, now())`,
    );
    await database.query(
      `insert into public.backups (started_at, finished_at, outcome, file_name, size)
       values (now(), '2026-11-22 03:00Z', 'verified', 'jani.tar.gz', 1)`,
    );
    const figures = await read();
    expect(figures).toMatchObject({
      'payments_open initiating': 1,
      'payments_open processing': 1,
      payments_in_review: 1,
      payments_completed_last_day: 1,
      payment_messages_unprocessed: 2,
      'payment_message_last_timestamp_seconds statement': 0,
      'refunds_open approved': 0,
      backup_last_timestamp_seconds: Date.UTC(2026, 10, 22, 3) / 1000,
    });
    expect(figures.payment_open_oldest_seconds).toBeGreaterThanOrEqual(600);
    expect(figures['payment_message_last_timestamp_seconds callback']).toBeGreaterThan(1.7e9);
    const { rows: waiting } = await database.query<{ channel: string; count: number }>(
      'select channel, count(*) from private.outbox_queue group by channel',
    );
    expect(waiting.length).toBeGreaterThan(0);
    for (const { channel, count } of waiting) expect(figures[`outbox_waiting ${channel}`]).toBe(count);
  });
});
