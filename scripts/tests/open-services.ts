// The backend with the shop's database and realtime settings behind an HTTP server, and the official clients of its
// storage and realtime services, for tests.
import { mkdtemp, rm } from 'node:fs/promises';
import type { Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createAdaptorServer } from '@hono/node-server';
import { createBackend } from '@jani-juice/backend';
import type { Database } from '@jani-juice/backend/database';
import { type ApiKeys, loadApiKeys } from '@jani-juice/backend/settings';
import { createDiskFiles, type FileStore } from '@jani-juice/backend/storage';
import { throwawayDatabase } from '@jani-juice/backend/testing';
import { RealtimeClient } from '@supabase/realtime-js';
import { StorageClient } from '@supabase/storage-js';
import { importJWK, SignJWT } from 'jose';
import { WebSocket } from 'ws';
import { shopRealtime } from '../../server/start/settings/shop-realtime.ts';
import { shopMigrations } from '../databases/shop-migrations.ts';

export interface OpenServices {
  /** URL of the storage service. Ends with /storage/v1. */
  url: string;
  keys: ApiKeys;
  database: Database;
  files: FileStore;
  /** The folder of its files. */
  folder: string;
  /** Internal errors of the services. */
  errors: unknown[];
  /** The official client of the storage service, with a key or token if given. */
  client(token?: string): StorageClient;
  /** The official client of the realtime service. Default: a visitor's. */
  live(token?: string): Promise<RealtimeClient>;
  /** Creates a signed-in user. Half-way staff have a second factor that is not verified. */
  person(
    kind: 'customer' | 'staff' | 'inactive staff' | 'half-way staff',
  ): Promise<{ id: string; token: string }>;
  /** An access token with additional claims. */
  token(claims: Record<string, unknown>): Promise<string>;
  close(): Promise<void>;
}

const publicUrl = 'http://shop.example';

/** Starts the backend. */
export async function openServices(kind: Database['kind']): Promise<OpenServices> {
  const folder = await mkdtemp(join(tmpdir(), 'jani-storage-'));
  const database = await throwawayDatabase(kind, shopMigrations);
  const files = createDiskFiles(folder);
  const keys = await loadApiKeys(folder);
  const errors: unknown[] = [];
  const backend = await createBackend({
    database,
    keys,
    functions: {},
    files,
    publicUrl,
    realtime: shopRealtime,
    onError: (error) => errors.push(error),
  });
  const server = createAdaptorServer({
    fetch: (request) => backend.fetch(request),
    overrideGlobalObjects: false,
  }) as Server;
  // Tests call from the same process: on a busy machine a client would use a connection that is just being closed.
  server.keepAliveTimeout = 120_000;
  server.on('upgrade', (request, socket, head) => {
    socket.on('error', () => socket.destroy());
    backend.upgrade(request, socket, head);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const address = server.address();
  const host = `127.0.0.1:${address && typeof address === 'object' ? address.port : 0}`;
  const url = `http://${host}/storage/v1`;
  const liveClients: RealtimeClient[] = [];

  const token = async (claims: Record<string, unknown>) => {
    const [key] = keys.signingKeys;
    if (!key?.kid) throw new Error('there is no signing key');
    const usual = { role: 'authenticated', iss: `${publicUrl}/auth/v1`, aud: 'authenticated' };
    const now = Math.floor(Date.now() / 1000);
    return new SignJWT({ ...usual, iat: now, exp: now + 3600, ...claims })
      .setProtectedHeader({ alg: 'ES256', kid: key.kid, typ: 'JWT' })
      .sign(await importJWK(key, 'ES256'));
  };

  return {
    url,
    keys,
    database,
    files,
    folder,
    errors,
    token,
    client: (given) =>
      new StorageClient(url, given ? { apikey: given, authorization: `Bearer ${given}` } : {}),
    async live(given) {
      const isKey = given?.startsWith('sb_');
      const client = new RealtimeClient(`ws://${host}/realtime/v1`, {
        params: { apikey: given && isKey ? given : keys.publishable },
        transport: WebSocket as never,
      });
      if (given && !isKey) await client.setAuth(given);
      liveClients.push(client);
      return client;
    },
    async person(wanted) {
      const id = crypto.randomUUID();
      await database.query('insert into auth.users (id, email) values ($1, $2)', [id, `${id}@jani.example`]);
      if (wanted !== 'customer') {
        await database.query('insert into public.admin_profiles (user_id, is_active) values ($1, $2)', [
          id,
          wanted !== 'inactive staff',
        ]);
      }
      if (wanted === 'half-way staff') {
        await database.query(
          `insert into auth.mfa_factors (user_id, factor_type, status) values ($1, 'totp', 'verified')`,
          [id],
        );
      }
      return { id, token: await token({ sub: id }) };
    },
    async close() {
      for (const client of liveClients) void client.disconnect();
      await backend.close();
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
      await database.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
