// The cost of one request is limited: the embedded database has a single session, and its queries cannot be cancelled.

import { testDatabases } from '@jani-juice/backend/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type OpenServices, openServices } from '../scripts/tests/open-services.ts';

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

  test('can embed, match and read as much as the pages need', async () => {
    expect((await ask(embeds(12))).status).toBe(200);
    expect((await ask(filter('^[[:alpha:]]{2,40} (juice|drink)$'))).status).toBe(200);
  });

  test('is rejected if it is too costly', async () => {
    for (const path of [embeds(13), filter('((a{1,200}){1,200}){1,200}'), filter('(.*)*.*(.*)*x\\1\\2')]) {
      expect((await ask(path)).status, path).toBe(400);
    }
  });

  test('is rejected if its body is nested thousands of levels deep, and the next one is answered', async () => {
    for (const depth of [2000, 8000, 200_000]) {
      const body = `{"tracking_number":${'['.repeat(depth)}${']'.repeat(depth)}}`;
      const { status } = await ask('rpc/track_order', body);
      // PostgreSQL has a deeper stack than the embedded database, and an error of its own.
      expect(kind === 'pglite' ? [400] : [200, 400, 500], String(depth)).toContain(status);
    }
    expect((await ask('products?select=id')).status).toBe(200);
  });
});
