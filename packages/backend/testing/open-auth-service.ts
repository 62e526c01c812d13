// The auth service by itself over HTTP, on a free port and a temporary database, for tests with the official client.
import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { getRequestListener } from '@hono/node-server';
import { exportJWK, generateKeyPair } from 'jose';
import type { ApiKeys } from '../api-keys.ts';
import type { Mail, TextMessage } from '../auth/codes/messages.ts';
import { createAuthService } from '../auth/service.ts';
import type { GivenAuthSettings } from '../auth/settings.ts';
import type { Database } from '../database/database.ts';
import { platform, throwawayDatabase } from './throwaway.ts';

export interface OpenAuthService {
  /** With `/auth/v1`. */
  url: string;
  keys: ApiKeys;
  database: Database;
  mails: Mail[];
  texts: TextMessage[];
  /** Internal errors. */
  errors: unknown[];
  /** Advances the service's clock. */
  advance(seconds: number): void;
  /** Starts another one on the same database with other settings. Both must be closed. */
  alongside(settings: Partial<GivenAuthSettings>): Promise<OpenAuthService>;
  /** Rejects if there were internal errors. */
  close(): Promise<void>;
}

/**
 * Starts the service with cheap password hashes, open sign-up and no confirmation. `settings` override these.
 * A caller's IP address is the last one of `x-forwarded-for`. Default: 127.0.0.1.
 */
export async function openAuthService(
  kind: Database['kind'],
  settings: Partial<GivenAuthSettings> = {},
): Promise<OpenAuthService> {
  const database = await throwawayDatabase(kind, [platform]);
  return openOn(database, settings, () => database.close());
}

async function openOn(
  database: Database,
  settings: Partial<GivenAuthSettings>,
  afterwards: () => Promise<void>,
): Promise<OpenAuthService> {
  const { privateKey } = await generateKeyPair('ES256', { extractable: true });
  const keys: ApiKeys = {
    publishable: `sb_publishable_${randomBytes(12).toString('base64url')}`,
    secret: `sb_secret_${randomBytes(12).toString('base64url')}`,
    signingKeys: [{ ...(await exportJWK(privateKey)), alg: 'ES256', use: 'sig', kid: 'one' }],
  };
  const mails: Mail[] = [];
  const texts: TextMessage[] = [];
  const errors: unknown[] = [];
  let ahead = 0;
  let answer: (request: Request) => Promise<Response> = async () => new Response(null, { status: 503 });
  const server = createServer(getRequestListener((request) => answer(request)));
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const origin = `http://localhost:${(server.address() as AddressInfo).port}`;
  const service = await createAuthService({
    database,
    keys,
    settings: {
      externalUrl: `${origin}/auth/v1`,
      siteUrl: origin,
      isSignupOpen: true,
      autoconfirmsEmail: true,
      autoconfirmsPhone: true,
      passwordHashCost: { memoryCost: 64, timeCost: 1, parallelism: 1 },
      shortestAnswer: 0,
      ...settings,
    },
    messages: {
      async sendMail(mail) {
        mails.push(mail);
      },
      async sendText(message) {
        texts.push(message);
        return { messageId: String(texts.length) };
      },
    },
    onError: (error) => errors.push(error),
    now: () => new Date(Date.now() + ahead * 1000),
  });
  answer = (request) =>
    service.fetch(request, {
      claims: { role: 'anon' },
      address: request.headers.get('x-forwarded-for')?.split(',').at(-1)?.trim() ?? '127.0.0.1',
    });
  return {
    url: `${origin}/auth/v1`,
    keys,
    database,
    mails,
    texts,
    errors,
    advance(seconds) {
      ahead += seconds;
    },
    alongside: (others) => openOn(database, others, async () => {}),
    async close() {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
      await service.close();
      await afterwards();
      if (errors.length > 0) throw new AggregateError(errors, 'internal errors of the service');
    },
  };
}
