// The version and the files of backups that the process sends to staff, with a real database.
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createDataService } from '@jani-juice/backend/data';
import type { Database } from '@jani-juice/backend/database';
import { testDatabases } from '@jani-juice/backend/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createStore } from '../../supabase/store.ts';
import { call, openShopDatabase } from '../../supabase/tests/shop-database.ts';
import { createStaffRoutes, type StaffRoutes } from './staff-routes.ts';

const name = 'jani-2026-11-28T00-00-00Z.tar.gz';
const version = {
  release: '0123456789abcdef',
  changedAt: '2026-11-27T09:00:00Z',
  commit: 'abcdef0',
  builtAt: '2026-11-28T09:00:00Z',
  startedAt: '2026-11-28T10:00:00Z',
};

describe.each(testDatabases())('on %s', (kind) => {
  let database: Database;
  let folder: string;
  let routes: StaffRoutes;
  let closeService: () => Promise<void>;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'jani-staff-routes-'));
    database = await openShopDatabase(kind);
    const service = await createDataService({ database, schemas: ['public'] });
    closeService = () => service.close();
    const serviceFetch: typeof fetch = (input, init) =>
      service.fetch(new Request(input, init), { claims: { role: 'service_role' }, address: null });
    routes = createStaffRoutes({
      version,
      maySeeVersion: async (token) => token === 'of-staff',
      tables: createStore({ url: 'http://shop.test', key: 'secret' }, { fetch: serviceFetch }).tables,
      backups: folder,
    });
  });
  afterAll(async () => {
    await closeService();
    await database.close();
    await rm(folder, { recursive: true, force: true });
  });
  beforeEach(async () => {
    for (const file of await readdir(folder)) await rm(join(folder, file));
    await database.execute('delete from private.rate_limits; delete from public.backups');
  });

  const get = (path: string, init: RequestInit = {}) => {
    const request = new Request(`http://shop.test${path}`, init);
    return routes.serves(new URL(request.url).pathname) ? routes.fetch(request) : null;
  };
  /** A token for the backup with this file. */
  async function tokenFor(file: string): Promise<string> {
    await call(database, 'service', 'record_backup', {
      started_at: new Date().toISOString(),
      outcome: 'verified',
      file_name: file,
      size: 3,
    });
    const { rows } = await database.query<{ id: string }>('select max(id)::text as id from public.backups');
    return call<string>(database, 'staff', 'allow_backup_download', { backup_id: rows[0]?.id });
  }
  const started = async () =>
    (await database.query('select from public.backup_downloads where started_at is not null')).rowCount;

  test('sends the file of a backup as a download, and notes that it began', async () => {
    const token = await tokenFor(name);
    await writeFile(join(folder, name), 'all data');
    const before = await started();
    const asked = await get(`/api/staff/backups/${token}`, { method: 'HEAD' });
    expect(asked?.status).toBe(200);
    expect(await started()).toBe(before);
    const answer = await get(`/api/staff/backups/${token}`);
    expect(await answer?.text()).toBe('all data');
    expect(Object.fromEntries(answer?.headers ?? [])).toMatchObject({
      'content-disposition': `attachment; filename="${name}"`,
      'content-length': '8',
      'content-type': 'application/gzip',
      'cache-control': 'no-store',
    });
    expect(await started()).toBe(before + 1);
  });

  test('says when the file is gone, or the token has expired', async () => {
    const token = await tokenFor(name);
    expect((await get(`/api/staff/backups/${token}`))?.status).toBe(410);
    await writeFile(join(folder, name), 'all data');
    await database.execute(
      `update public.backup_downloads set allowed_at = now() - interval '1 hour' where true`,
    );
    expect((await get(`/api/staff/backups/${token}`))?.status).toBe(404);
    expect((await get(`/api/staff/backups/${'0'.repeat(64)}`))?.status).toBe(404);
  });

  test('sends no other file, and answers no other method or path', async () => {
    const token = await tokenFor('../keys.json');
    await writeFile(join(folder, 'keys.json'), 'secret');
    expect((await get(`/api/staff/backups/${token}`))?.status).toBe(410);
    expect((await get(`/api/staff/backups/${token}`, { method: 'POST' }))?.status).toBe(405);
    expect(get(`/api/staff/backups/${name}`)).toBeNull();
    expect(get('/api/staff/backups/')).toBeNull();
  });

  test('sends the version to staff only', async () => {
    const as = (authorization: string) => get('/api/staff/version', { headers: { authorization } });
    expect(await (await as('Bearer of-staff'))?.json()).toEqual(version);
    for (const header of ['', 'Bearer', 'Bearer of-a-customer', 'of-staff']) {
      expect((await as(header))?.status, header).toBe(403);
    }
  });
});
