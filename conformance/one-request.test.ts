// What one request of a visitor may cost: the embedded database has one session for everybody, and nothing stops it.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { testDatabases } from '../backend/database/throwaway.ts';
import { type OpenServices, openServices } from '../scripts/open-services.ts';

describe.each(testDatabases())('one request on %s', (kind) => {
  let services: OpenServices;
  beforeAll(async () => {
    services = await openServices(kind);
  });
  afterAll(() => services.close());

  const ask = (path: string, body?: string) =>
    fetch(new URL(`/rest/v1/${path}`, services.url), {
      headers: { apikey: services.keys.publishable, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { method: 'POST', body }),
    });
  const embeds = (many: number) =>
    `products?select=${Array.from({ length: many }, (_, n) => `c${n}:categories(name)`).join(',')}`;
  const filter = (pattern: string) => `products?select=id&name=match.${encodeURIComponent(pattern)}`;

  test('embeds, matches and reads what any page needs', async () => {
    expect((await ask(embeds(12))).status).toBe(200);
    expect((await ask(filter('^[[:alpha:]]{2,40} (juice|drink)$'))).status).toBe(200);
  });

  test('is refused when it asks for so much that everybody would wait', async () => {
    for (const path of [embeds(13), filter('((a{1,200}){1,200}){1,200}'), filter('(.*)*.*(.*)*x\\1\\2')]) {
      expect((await ask(path)).status, path).toBe(400);
    }
  });

  test('is refused when its body is nested thousands of times, and the next one is answered', async () => {
    for (const depth of [2000, 8000, 200_000]) {
      const body = `{"tracking_number":${'['.repeat(depth)}${']'.repeat(depth)}}`;
      const { status } = await ask('rpc/track_order', body);
      // A server has room for more than the embedded database, and says itself where that ends.
      expect(kind === 'pglite' ? [400] : [200, 400, 500], String(depth)).toContain(status);
    }
    expect((await ask('products?select=id')).status).toBe(200);
  });
});
