import { expect, test } from 'vitest';
import { throwawayDatabase } from '../backend/database/throwaway.ts';
import { shopMigrations } from '../scripts/shop-migrations.ts';
import { isReady } from './readiness.ts';

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
