// The figures by which a backup is compared with the shop.
import { expect, test } from 'vitest';
import {
  call,
  makeProduct,
  openShopDatabase,
  orderForm,
  type PlacedOrder,
  personIds,
} from '../../../supabase/tests/shop-database.ts';
import { readFigures } from './figures.ts';

test('money received includes orders but not payment tests', async () => {
  const database = await openShopDatabase('pglite');
  const received = async () => (await database.transaction(readFigures))['money received'];
  const { id } = await call<PlacedOrder>(
    database,
    'visitor',
    'place_order',
    orderForm(await makeProduct(database, 5)),
  );
  await database.query(
    `insert into public.payments (purpose, phone, charge_cents, requested_by, status, completed_at)
     values ('test', '+254712345678', 100, $1, 'completed', now())`,
    [personIds.staff],
  );
  expect(await received()).toBe(0);
  await database.query(
    `insert into public.payments (order_id, phone, charge_cents, status, completed_at)
     values ($1, '+254712345678', 20000, 'completed', now())`,
    [id],
  );
  expect(await received()).toBe(20_000);
  await database.close();
});
