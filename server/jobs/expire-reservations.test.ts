import { createDataService } from '@jani-juice/backend/data';
import type { Database } from '@jani-juice/backend/database';
import { testDatabases } from '@jani-juice/backend/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createStore } from '../../supabase/store.ts';
import {
  call,
  makeProduct,
  openShopDatabase,
  orderForm,
  stockOf,
} from '../../supabase/tests/shop-database.ts';
import { expireReservations } from './expire-reservations.ts';

describe.each(testDatabases())('on %s', (kind) => {
  let database: Database;
  let closeService: () => Promise<void>;
  let tables: ReturnType<typeof createStore>['tables'];
  /** How many orders each call ended. */
  let ended: number[];

  beforeAll(async () => {
    database = await openShopDatabase(kind);
    const service = await createDataService({ database, schemas: ['public'] });
    closeService = () => service.close();
    const serviceFetch: typeof fetch = async (input, init) => {
      const caller = { claims: { role: 'service_role' as const }, address: null };
      const response = await service.fetch(new Request(input, init), caller);
      ended.push(Number(await response.clone().text()));
      return response;
    };
    tables = createStore({ url: 'https://jani.example', key: 'secret' }, { fetch: serviceFetch }).tables;
  });
  afterAll(async () => {
    await closeService();
    await database.close();
  });

  test('ends all due reservations in one run, each in a transaction of its own', async () => {
    ended = [];
    const product = await makeProduct(database, 60);
    for (let order = 0; order < 50; order += 1)
      await call(database, 'service', 'place_order', orderForm(product));
    expect(await stockOf(database, product)).toBe(10);
    // One is not due yet.
    await database.query(
      `update public.orders set reserved_until = now(), expires_at = now()
       where id in (select id from public.orders order by created_at limit 49)`,
    );
    await expireReservations(tables).run();
    expect(ended).toEqual([...Array.from({ length: 49 }, () => 1), 0]);
    expect(await stockOf(database, product)).toBe(59);
  });

  test('ends no further reservations after a stop', async () => {
    ended = [];
    const product = await makeProduct(database, 30);
    for (let order = 0; order < 30; order += 1)
      await call(database, 'service', 'place_order', orderForm(product));
    await database.query(
      `update public.orders set reserved_until = now(), expires_at = now() where reserved_until is not null`,
    );
    const job = expireReservations(tables);
    const running = job.run();
    await job.stop?.();
    await running;
    expect(ended).toEqual([1]);
  });
});
