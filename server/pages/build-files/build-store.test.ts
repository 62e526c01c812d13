// The store of builds in the shop's own storage service.

import { testDatabases } from '@jani-juice/backend/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type OpenServices, openServices } from '../../../scripts/tests/open-services.ts';
import { type BuildStore, openBuildStore } from './build-store.ts';

let services: OpenServices;
let store: BuildStore;
beforeAll(async () => {
  services = await openServices(testDatabases()[0] ?? 'pglite');
  store = openBuildStore({
    servicesUrl: services.url.replace(/\/storage\/v1$/, ''),
    secretKey: services.keys.secret,
    serviceFetch: fetch,
  });
});
afterAll(() => services.close());

test('stores builds that only the secret key reads, also when processes start at once', async () => {
  expect(await store.list()).toEqual([]);
  const [first, second] = [Buffer.from('files of one build'), Buffer.from('of another')];
  await Promise.all([store.write('1', first), store.write('1', first), store.write('2', second)]);
  const listed = await store.list();
  expect(listed.map(({ id }) => id).sort()).toEqual(['1', '2']);
  for (const { seenAt } of listed) expect(Math.abs(Date.now() - seenAt)).toBeLessThan(60_000);
  expect(await store.read('1')).toEqual(first);

  const staff = await services.person('staff');
  for (const token of [undefined, staff.token]) {
    const files = services.client(token).from('builds');
    expect((await files.download('1')).error).not.toBeNull();
    expect((await files.upload('3', 'mine')).error).not.toBeNull();
    expect((await files.list()).data ?? []).toEqual([]);
  }

  await store.write('1', first);
  expect((await store.list()).length).toBe(2);
  await store.remove(['1']);
  expect((await store.list()).map(({ id }) => id)).toEqual(['2']);
  await expect(store.read('1')).rejects.toThrow();
  expect(services.errors).toEqual([]);
});
