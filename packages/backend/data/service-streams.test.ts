// Long responses: PostgreSQL streams them, the embedded database returns them whole; otherwise they are the same.
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { Database } from '../database/database.ts';
import { openPostgresql } from '../database/postgresql/postgresql.ts';
import { platform, testDatabases, throwawayDatabase } from '../testing/throwaway.ts';
import { maxBufferedRows } from './run/stream-rows.ts';
import { createDataService } from './service.ts';

const many = maxBufferedRows * 2;

describe.each(testDatabases())('long responses on %s', (kind) => {
  let database: Database & { url?: string };
  /** With a single connection: a request that does not release it blocks all others. */
  let narrow: Database;
  let service: Awaited<ReturnType<typeof createDataService>>;
  beforeAll(async () => {
    database = await throwawayDatabase(kind, [platform]);
    await database.execute(`
      create schema long;
      create table long.rows as select id, 'row ' || id as label, null::text as nothing from generate_series(1, ${many}) as id;
      create view long.broken as select id, 1 / (id - ${many}) as share from long.rows;
      grant usage on schema long to anon;
      grant select on long.rows, long.broken to anon;`);
    narrow = database.url ? openPostgresql(database.url, { poolSize: 1 }) : database;
    service = await createDataService({
      database: narrow,
      schemas: ['long'],
      limits: { maxRows: Number.POSITIVE_INFINITY },
    });
  });
  afterAll(async () => {
    await service.close();
    if (narrow !== database) await narrow.close();
    await database.close();
  });
  const send = (path: string, headers: Record<string, string> = {}, signal?: AbortSignal) =>
    service.fetch(new Request(`http://backend/rest/v1${path}`, { headers, ...(signal ? { signal } : {}) }), {
      claims: { role: 'anon' },
      address: null,
    });

  test('contain every row in order, and their count', async () => {
    const response = await send('/rows?order=id', { prefer: 'count=exact' });
    expect([response.status, response.headers.get('content-range')]).toEqual([200, `0-${many - 1}/${many}`]);
    const rows: Array<{ id: number; label: string }> = await response.json();
    expect(rows).toHaveLength(many);
    expect(rows.every(({ id, label }, at) => id === at + 1 && label === `row ${id}`)).toBe(true);
  });

  test('equal the same response sent whole', async () => {
    const limit = maxBufferedRows + 1;
    const whole = (await (await send(`/rows?order=id&limit=${maxBufferedRows}`)).text()).slice(0, -1);
    const long = await (await send(`/rows?order=id&limit=${limit}`)).text();
    expect(long).toBe(`${whole}, \n {"id":${limit},"label":"row ${limit}","nothing":null}]`);
    const stripped = await send(`/rows?order=id&offset=1&limit=${limit}`, {
      accept: 'application/vnd.pgrst.array+json;nulls=stripped',
    });
    expect(stripped.headers.get('content-range')).toBe(`1-${limit}/*`);
    expect(await stripped.json()).toHaveLength(limit);
  });

  test('fail before they begin, whichever row fails', async () => {
    const response = await send('/broken?order=id');
    expect([response.status, (await response.json()).code]).toEqual([400, '22012']);
  });

  test('release their connection when the client stops reading', async () => {
    const response = await send('/rows?order=id');
    const reader = response.body?.getReader();
    const first = await reader?.read();
    expect(new TextDecoder().decode(first?.value).slice(0, 8)).toBe('[{"id":1');
    await reader?.cancel();
    await vi.waitFor(
      async () => {
        expect(await (await send('/rows?id=eq.7&select=id')).json()).toEqual([{ id: 7 }]);
      },
      { timeout: 20_000 },
    );
  });
});
