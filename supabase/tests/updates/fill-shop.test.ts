// The next fixture holds a row of everything that a shop of this version can have of orders, money and deliveries.
import { testDatabases, throwawayDatabase } from '@jani-juice/backend/testing';
import { expect, test } from 'vitest';
import { shopMigrations } from '../../../scripts/databases/shop-migrations.ts';
import { fillShop } from './fill-shop.ts';

const filled = [
  "public.orders where payment_method = 'cash'",
  'public.orders where area_id is not null and map_point is not null and promised_at is not null',
  'public.orders where discount_cents > 0',
  'public.orders where cancel_requested_at is not null',
  "public.change_notes where kind = 'credit'",
  "public.change_notes where kind = 'used'",
  'public.discount_codes',
  'public.notices',
  'public.riders',
  'public.rider_links',
  'private.rider_presses',
  "public.deliveries where rider_id is not null and proven_by = 'code' and wrong_codes = 1",
  'public.ratings where words is not null',
];

test.each(testDatabases())('a filled shop on %s has each kind of row', async (kind) => {
  const database = await throwawayDatabase(kind, shopMigrations);
  try {
    await fillShop(database);
    const missing: string[] = [];
    for (const rows of filled)
      if ((await database.query(`select from ${rows} limit 1`)).rowCount === 0) missing.push(rows);
    expect(missing).toEqual([]);
  } finally {
    await database.close();
  }
});
