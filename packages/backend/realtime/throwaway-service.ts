// For tests: the realtime service behind a real HTTP server on a free port, and the official client for it.
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type RealtimeChannel, RealtimeClient, type RealtimeClientOptions } from '@supabase/realtime-js';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { WebSocket } from 'ws';
import type { ApiKeys } from '../api-keys.ts';
import { createAuthenticate } from '../authenticate.ts';
import type { Database } from '../database/database.ts';
import type { Limits } from './limits.ts';
import { createRealtimeService, type RealtimeOptions } from './service.ts';

const keyOfService = await generateKeyPair('ES256', { extractable: true });
const foreignKeyPair = await generateKeyPair('ES256');
const keys: ApiKeys = {
  publishable: 'sb_publishable_test',
  secret: 'sb_secret_test',
  signingKeys: [{ ...(await exportJWK(keyOfService.privateKey)), alg: 'ES256', kid: 'test' }],
};
const authenticate = createAuthenticate(keys);

/**
 * A signed access token.
 * @param expiry as `jose` takes it, such as '1h' or seconds since 1970
 */
export function tokenOf(claims: Record<string, unknown>, expiry: string | number = '1h'): Promise<string> {
  return signed(claims, expiry, keyOfService.privateKey);
}

/** A token like `tokenOf`'s, signed with another key. */
export function forgedTokenOf(claims: Record<string, unknown>): Promise<string> {
  return signed(claims, '1h', foreignKeyPair.privateKey);
}

function signed(claims: Record<string, unknown>, expiry: string | number, key: CryptoKey) {
  return new SignJWT(claims)
    .setProtectedHeader({ alg: 'ES256', kid: 'test' })
    .setExpirationTime(expiry)
    .sign(key);
}

/** The database for a service, and the number of its queries and transactions. */
export function countQueries(database: Database): { queries: { total: number }; counting: Database } {
  const queries = { total: 0 };
  const counting: Database = {
    ...database,
    query: (...given) => {
      queries.total += 1;
      return database.query(...given);
    },
    transaction: (...given) => {
      queries.total += 1;
      return database.transaction(...given);
    },
  };
  return { queries, counting };
}

/** A service on a free port. */
export interface ThrowawayService {
  url: string;
  errors: unknown[];
  /** Open WebSockets. */
  readonly sockets: number;
  /** A client of it, closed with the service. */
  client(options?: Omit<RealtimeClientOptions, 'transport'>): RealtimeClient;
  close(): Promise<void>;
}

/** Starts a service on a free port. It takes a client's IP address from `x-forwarded-for`. */
export async function startService(
  database: Database,
  limits: Partial<Limits> = {},
  options: Pick<RealtimeOptions, 'publicSenders' | 'backlog'> = {},
): Promise<ThrowawayService> {
  const errors: unknown[] = [];
  const service = createRealtimeService({
    ...options,
    database,
    authenticate,
    limits,
    onError: (error) => errors.push(error),
  });
  const server: Server = createServer(async (request, response) => {
    const token = request.headers.authorization?.replace('Bearer ', '') ?? request.headers.apikey;
    const claims = await authenticate(String(token)).catch(() => ({ role: 'anon' }));
    const address = request.headers['x-forwarded-for']?.toString() ?? null;
    const answer = await service.fetch(await webRequest(request), { claims, address });
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    response.end(Buffer.from(await answer.arrayBuffer()));
  });
  server.on('upgrade', (request, socket, head) => service.upgrade(request, socket, head));
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/realtime/v1`;
  const clients: RealtimeClient[] = [];
  return {
    url,
    errors,
    get sockets() {
      return service.sockets;
    },
    client(options = {}) {
      const client = new RealtimeClient(url.replace('http', 'ws'), {
        params: { apikey: 'sb_publishable_test' },
        timeout: 8_000,
        transport: WebSocket as never,
        ...options,
      });
      clients.push(client);
      return client;
    },
    async close() {
      for (const client of clients) void client.disconnect();
      await service.close();
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
}

async function webRequest(request: IncomingMessage): Promise<Request> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const method = request.method ?? 'GET';
  return new Request(`http://127.0.0.1${request.url}`, {
    method,
    headers: request.headers as Record<string, string>,
    ...(method === 'GET' || method === 'HEAD' ? {} : { body: Buffer.concat(chunks) }),
  });
}

/** Joins and waits for the first answer. */
export function subscribed(channel: RealtimeChannel): Promise<{ status: string; error?: Error | undefined }> {
  return new Promise((done) => {
    channel.subscribe((status, error) => done({ status, error }));
  });
}

/** Collects events and lets a test wait for them. */
export class Collected<T> {
  readonly all: T[] = [];
  #waiting: { count: number; done: (all: T[]) => void }[] = [];

  readonly add = (item: T): void => {
    this.all.push(item);
    this.#waiting = this.#waiting.filter(({ count, done }) => {
      if (this.all.length < count) return true;
      done(this.all);
      return false;
    });
  };

  /** Resolves with all events once there are that many. */
  atLeast(count: number): Promise<T[]> {
    if (this.all.length >= count) return Promise.resolve(this.all);
    return new Promise((done) => this.#waiting.push({ count, done }));
  }
}
