import { throwawayDatabase } from '@jani-juice/backend/testing';
import { expect, test } from 'vitest';
import { shopMigrations } from '../../scripts/databases/shop-migrations.ts';
import { createReadiness, isReady } from './readiness.ts';

test('is ready only while the database answers', async () => {
  const database = await throwawayDatabase('pglite', shopMigrations);
  const query = () => database.query('select from platform.schema_migrations limit 1');
  expect(await isReady(query)).toBe(true);
  let letGo = () => {};
  const held = database.transaction(() => new Promise<void>((done) => (letGo = done)));
  expect(await isReady(query, 20)).toBe(false);
  letGo();
  await held;
  expect(await isReady(query)).toBe(true);
  await database.close();
});

test('remembers a success for a while, a failure never, until something else fails', async () => {
  let asked = 0;
  let isUp = false;
  const readiness = createReadiness(async () => {
    asked += 1;
    if (!isUp) throw new Error('unavailable');
  }, 60_000);
  expect(await readiness.isReady()).toBe(false);
  isUp = true;
  expect(await Promise.all([readiness.isReady(), readiness.isReady()])).toEqual([true, true]);
  isUp = false;
  expect(await readiness.isReady()).toBe(true);
  expect(asked).toBe(2);
  readiness.forget();
  expect(await readiness.isReady()).toBe(false);
});
