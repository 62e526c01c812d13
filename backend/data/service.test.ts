// The service under the official client and under raw requests, on both databases.
import { PostgrestClient } from '@supabase/postgrest-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Claims } from '../database/as-role.ts';
import type { Database } from '../database/database.ts';
import { testDatabases, throwawayDatabase } from '../database/throwaway.ts';
import { createDataService } from './service.ts';

const sources = [
  { name: 'platform', folder: 'backend/platform' },
  { name: 'library', folder: 'backend/data/fixture' },
];
const anon: Claims = { role: 'anon' };

describe.each(testDatabases())('the table-query service on %s', (kind) => {
  let database: Database;
  let service: Awaited<ReturnType<typeof createDataService>>;
  const faults: unknown[] = [];
  beforeAll(async () => {
    database = await throwawayDatabase(kind, sources);
    service = await createDataService({
      database,
      schemas: ['public'],
      maxBodyBytes: 100_000,
      maxRows: 50,
      maxEmbedDepth: 4,
      statementTimeout: 5000,
      allowsRollback: true,
      onFault: (error) => faults.push(error),
    });
  });
  afterAll(async () => {
    await service.close();
    await database.close();
  });

  const clientOf = (claims: Claims) =>
    // biome-ignore lint/suspicious/noExplicitAny: the client is driven without generated types
    new PostgrestClient<any, any, any>('http://backend/rest/v1', {
      fetch: (input, init) => service.fetch(new Request(input, init), { claims, address: null }),
    });
  const asAnon = clientOf(anon);
  test('reads columns, casts, aliases and JSON paths', async () => {
    const { data, error } = await asAnon
      .from('authors')
      .select('id::text, who:name, details->>city, year:details->awards->0->year, aliases->0, initials')
      .eq('id', 1);
    expect(error).toBeNull();
    expect(data).toEqual([
      { id: '1', who: 'Ada', city: 'London', year: 1843, aliases: 'Countess', initials: 'A' },
    ]);
  });

  test('embeds along foreign keys', async () => {
    const { data, error } = await asAnon
      .from('books')
      .select('title, author:author_id(name), tags(label), editor:authors!editor_id(name)')
      .order('id')
      .limit(1);
    expect(error).toBeNull();
    expect(data).toEqual([
      { title: 'Engines', author: { name: 'Ada' }, tags: [{ label: 'maths' }], editor: { name: 'Bo' } },
    ]);
  });
});
