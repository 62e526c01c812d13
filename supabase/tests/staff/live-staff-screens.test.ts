// Live updates of staff screens: their tables are published, and changes are written to the log.

import { testDatabases, throwawayDatabase } from '@jani-juice/backend/testing';
import { describe, expect, test } from 'vitest';
import { shopMigrations } from '../../../scripts/databases/shop-migrations.ts';

describe.each(testDatabases())('on %s', (kind) => {
  test('publishes changes of the tables of staff screens, and of no others', async () => {
    const database = await throwawayDatabase(kind, shopMigrations);
    const { rows } = await database.query(
      `select relation::regclass::text as name, is_watched from realtime.watched_tables order by 1`,
    );
    expect(rows).toEqual(
      [
        'brands',
        'categories',
        'day_closes',
        'deliveries',
        'delivery_areas',
        'discount_codes',
        'inquiries',
        'message_templates',
        'messages_to_check',
        'mpesa_transactions',
        'notices',
        'orders',
        'outbox_messages',
        'payments',
        'products',
        'ratings',
        'reconciliation_events',
        'refunds',
        'reply_templates',
        'search_synonyms',
        'shop_texts',
        'statement_pulls',
        'store_settings',
      ].map((name) => ({ name, is_watched: true })),
    );
    await database.query('delete from realtime.changes');
    await database.query(
      `insert into public.orders
         (tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_fee, total_amount,
          payment_status)
       values ('JJ-20261121-0001', 'Wanjiku', 'wanjiku@mail.example', '+254712345678', 'Westlands', 100, 1100, 'paid')`,
    );
    await database.query(`update public.orders set status = 'shipped'`);
    const logged = await database.query(
      `select table_name, type, record ->> 'status' as status from realtime.changes order by id`,
    );
    expect(logged.rows).toEqual([
      { table_name: 'orders', type: 'INSERT', status: 'pending' },
      { table_name: 'orders', type: 'UPDATE', status: 'shipped' },
      // The email and the text to the customer.
      { table_name: 'outbox_messages', type: 'INSERT', status: 'waiting' },
      { table_name: 'outbox_messages', type: 'INSERT', status: 'waiting' },
    ]);
    await database.close();
  });
});
