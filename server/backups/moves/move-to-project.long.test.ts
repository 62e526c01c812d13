// A move to a database like that of a hosted project, and a stand-in of its Storage API.
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { openPglite } from '@jani-juice/backend/pglite';
import { createDiskFiles } from '@jani-juice/backend/storage';
import { copyMigratedDatabase, sharedBuffers, testDatabases } from '@jani-juice/backend/testing';
import { expect, test } from 'vitest';
import { shopMigrations } from '../../../scripts/databases/shop-migrations.ts';
import { findPostgresql } from '../../../scripts/databases/throwaway-postgresql.ts';
import { createHostedProject, type HostedProject } from '../../../supabase/tests/hosted/project.ts';
import { moveShop } from './move-shop.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const isPossible = testDatabases().includes('postgresql') && (await findPostgresql()) !== null;
const version = '0d000000-0000-4000-8000-000000000001';
const staff = '5a000000-0000-4000-8000-000000000001';
const password = '$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaA';

async function fillShop(dataDir: string): Promise<void> {
  await copyMigratedDatabase(join(dataDir, 'database'), shopMigrations);
  const database = await openPglite(join(dataDir, 'database'), { isDurable: false, sharedBuffers });
  await database.execute(`
    insert into auth.users (id, email, encrypted_password, email_confirmed_at)
      values ('${staff}', 'staff@jani.example', '${password}', now());
    insert into auth.identities (user_id, provider_id, provider, identity_data)
      values ('${staff}', '${staff}', 'email', '{"email": "staff@jani.example"}');
    insert into auth.mfa_factors (user_id, factor_type, status, secret) values ('${staff}', 'totp', 'verified', 'JBSWY3DPEHPK3PXP');
    insert into auth.sessions (user_id, refresh_token_hmac_key) values ('${staff}', 'x');
    insert into public.admin_profiles (user_id) values ('${staff}');
    insert into public.categories (name) values ('Mango');
    insert into public.products (name, slug, price, category, image_url, more_images)
      values ('Mango', 'mango', 95000, 'Mango', '/storage/v1/object/public/product-images/products/a.png',
        '{/storage/v1/object/public/product-images/products/b.png,https://a.example/storage/v1/c.png,/storage/v1/d.png}');
    insert into public.orders
      (tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_fee, total_amount)
    select 'JJ-20261121-' || 1000 + n, 'Amina ' || n, 'a@b.example', '+254712345678', 'Karen', 100, 100 * n
    from generate_series(1, 50) as n;
    insert into storage.objects (bucket_id, name, version, metadata)
      values ('product-images', 'products/a.png', '${version}', '{"size": 8, "mimetype": "image/png", "cacheControl": "max-age=60"}')`);
  const { rows } = await database.query<{ id: string }>('select id from storage.installations');
  await database.close();
  const folder = join(dataDir, 'storage/files', rows[0]?.id ?? '', version.slice(0, 2));
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, version), 'an image');
}

/** Stores what it receives as rows, as the platform does. */
async function startStorage(project: HostedProject, state: { isFull: boolean }) {
  const received: string[] = [];
  const answer = async (request: IncomingMessage): Promise<number> => {
    const [, bucket, name] = /^\/storage\/v1\/object\/([^/]+)\/(.+)$/.exec(request.url ?? '') ?? [];
    if (!bucket || request.headers.apikey !== 'sb_secret_1') return 400;
    const body = await buffer(request);
    if (state.isFull) return 507;
    const { 'content-type': type, 'cache-control': cache } = request.headers;
    received.push(`${bucket}/${name} ${type} ${cache} ${body}`);
    await project.platform.query(
      'insert into storage.objects (bucket_id, name, metadata) values ($1, $2, $3)',
      [bucket, name, { size: body.length }],
    );
    return 200;
  };
  const server = createServer(async (request, response) => {
    response.statusCode = await answer(request);
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ Id: 'x', Key: 'x', message: 'full' }));
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, received, close: () => server.close() };
}

test.runIf(isPossible)(
  'moves accounts, second factors, orders and images to a hosted project, and continues after a failure',
  { timeout: 300_000 },
  async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'jani-move-'));
    const project = await createHostedProject({ isSeeded: false });
    const state = { isFull: true };
    const storage = await startStorage(project, state);
    try {
      await fillShop(dataDir);
      const from = { databaseUrl: null, dataDir, files: createDiskFiles(join(dataDir, 'storage')) };
      const to = { url: project.ownerUrl, projectUrl: storage.url, secretKey: 'sb_secret_1' };
      const move = () => moveShop(from, { kind: 'project', ...to }, root);
      await expect(moveShop(from, { kind: 'postgresql', url: project.ownerUrl }, root)).rejects.toThrow(
        'add its URL with --project',
      );
      await expect(move()).rejects.toThrow('The project does not store product-images/products/a.png');
      expect((await project.owner.query('select from public.orders')).rowCount).toBe(0);
      state.isFull = false;
      expect(await move()).toMatchObject({ files: 1, content: { sums: { 'total of all orders': 127_500 } } });
      expect(storage.received).toEqual(['product-images/products/a.png image/png max-age=60 an image']);

      const { rows: users } = await project.owner.query(
        'select id, instance_id, email, encrypted_password, confirmation_token, email_change from auth.users',
      );
      expect(users).toEqual([
        {
          id: staff,
          // What the platform's auth service looks for, and can read.
          instance_id: '00000000-0000-0000-0000-000000000000',
          email: 'staff@jani.example',
          encrypted_password: password,
          confirmation_token: '',
          email_change: '',
        },
      ]);
      const { rows: counts } = await project.owner.query(
        `select (select count(*) from auth.identities) as identities, (select count(*) from auth.sessions) as sessions,
           (select secret from auth.mfa_factors) as secret, (select count(*) from public.orders) as orders,
           (select array[image_url] || more_images from public.products) as images`,
      );
      expect(counts).toEqual([
        {
          identities: 1,
          sessions: 0,
          secret: 'JBSWY3DPEHPK3PXP',
          orders: 50,
          images: [
            `${storage.url}/storage/v1/object/public/product-images/products/a.png`,
            `${storage.url}/storage/v1/object/public/product-images/products/b.png`,
            'https://a.example/storage/v1/c.png',
            `${storage.url}/storage/v1/d.png`,
          ],
        },
      ]);
      expect(await move(), 'a repeated move changes nothing').toMatchObject({ files: 1 });
      expect(storage.received).toHaveLength(1);
      await project.owner.query(
        `update public.orders set delivery_notes = 'its own' where customer_name = 'Amina 1'`,
      );
      await expect(move()).rejects.toThrow('There is another shop, or an account, in that project');
    } finally {
      storage.close();
      await project.close();
      await rm(dataDir, { recursive: true, force: true });
    }
  },
);
