// The root of the built-in services: who is asking, from where, and which service answers.
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { ApiKeys } from './api-keys.ts';
import type { Messages } from './auth/messages.ts';
import { createAuthService } from './auth/service.ts';
import { completeSettings, type GivenAuthSettings } from './auth/settings.ts';
import { createAuthenticate, InvalidToken } from './authenticate.ts';
import type { Caller, Service } from './caller.ts';
import { createDataService } from './data/service.ts';
import type { Database } from './database/database.ts';
import { createFunctionsService, type FunctionHandler } from './functions/service.ts';
import { isHangUp } from './hang-up.ts';
import { addressOf, PlainRequest } from './plain-request.ts';
import { PlainResponse } from './plain-response.ts';
import { createRealtimeService } from './realtime/service.ts';
import type { FileStore } from './storage/file-store.ts';
import { createStorageService } from './storage/service.ts';

export interface BackendOptions {
  database: Database;
  keys: ApiKeys;
  functions: Record<string, FunctionHandler>;
  /** Where stored objects are; without it there is no storage. */
  files?: FileStore;
  /** What the outside calls us; access tokens name it as their issuer. `http://localhost:3000` unless told. */
  publicUrl?: string;
  /** How people sign in, and what sends them mails and texts. */
  auth?: { settings?: Partial<GivenAuthSettings>; messages?: Messages; now?: () => Date };
  /** Origins besides the services' own that may call them from a browser. */
  allowedOrigins?: readonly string[];
  /** Told of faults no caller is told the details of. */
  onFault?: (error: unknown, where: string) => void;
}

export interface Backend {
  /** Answers a request to one of the services; `x-forwarded-for` in it must be trustworthy. */
  fetch(request: Request): Promise<Response>;
  /** The same for plain requests too, and without a stream for a body that is at hand. */
  answer(request: Request | PlainRequest): Promise<Response | PlainResponse>;
  /** Whether a path belongs to the services. */
  serves(path: string): boolean;
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  close(): Promise<void>;
}

/**
 * Puts the services together.
 * @throws DatabaseError when the database cannot be reached
 */
export async function createBackend(options: BackendOptions): Promise<Backend> {
  const { database, keys, functions, allowedOrigins = [] } = options;
  const onFault = (error: unknown, where: string) => {
    if (!isHangUp(error)) options.onFault?.(error, where);
  };
  const { publicUrl = 'http://localhost:3000', auth: givenAuth = {} } = options;
  const authSettings = completeSettings({
    externalUrl: `${publicUrl}/auth/v1`,
    siteUrl: publicUrl,
    ...givenAuth.settings,
  });
  const authenticate = createAuthenticate(keys, {
    issuer: authSettings.externalUrl,
    audience: authSettings.audience,
  });
  const auth = await createAuthService({
    database,
    keys,
    settings: authSettings,
    messages: givenAuth.messages ?? noMessages,
    onFault: (error) => onFault(error, 'auth'),
    ...(givenAuth.now ? { now: givenAuth.now } : {}),
  });
  const data = await createDataService({
    database,
    schemas: ['public'],
    // Visitors write queries too: none may multiply rows without end, nor keep a connection for long.
    allowsCircles: false,
    allowsCostlyPatterns: false,
    // What planning costs grows with their third power.
    maxEmbeds: 12,
    statementTimeout: 8000,
    onFault: (error) => onFault(error, 'data'),
  });
  const realtime = await createRealtimeService({
    database,
    authenticate,
    onFault: (error) => onFault(error, 'realtime'),
  });
  const storage = options.files
    ? await createStorageService({
        database,
        files: options.files,
        signingSecret: keys.secret,
        onFault: (error) => onFault(error, 'storage'),
      })
    : null;
  const services: Record<string, Service> = {
    '/rest/v1': data,
    '/functions/v1': createFunctionsService({ functions, onFault: (error) => onFault(error, 'functions') }),
    '/realtime/v1': realtime,
    ...(storage ? { '/storage/v1': storage } : {}),
    '/auth/v1': auth,
  };
  const serviceOf = (path: string) =>
    Object.keys(services).find((prefix) => path === prefix || path.startsWith(`${prefix}/`));

  const route = async (request: Request | PlainRequest): Promise<Response | PlainResponse> => {
    const { pathname, search } = addressOf(request);
    const prefix = serviceOf(pathname);
    const service = prefix && services[prefix];
    if (!service) return problem(404, 'not_found', 'No service has this path');
    const origin = request.headers.get('origin');
    const isForeign = origin !== null && !isOwnOrigin(origin, request) && !allowedOrigins.includes(origin);
    if (isForeign && !['GET', 'HEAD'].includes(request.method) && !formPosts.has(pathname)) {
      return problem(403, 'origin_not_allowed', 'Requests from pages of other sites are not accepted');
    }
    const isPreflight = request.method === 'OPTIONS' && request.headers.has('access-control-request-method');
    if (origin && isPreflight && !answersPreflights.has(prefix)) return allowRequest(request);
    if (prefix === '/auth/v1') {
      // Who has no session yet brings no key either: links in mails, providers that send people back.
      return service.fetch(whole(request), { claims: { role: 'anon' }, address: senderOf(request) });
    }
    const token =
      bearer(request) ?? request.headers.get('apikey') ?? new URLSearchParams(search).get('apikey');
    if (!token && prefix === '/storage/v1') {
      // Public and signed addresses are open to everyone; the service knows which they are.
      const caller: Caller = { claims: { role: 'anon' }, address: senderOf(request) };
      return service.fetch(whole(request), { ...caller, tokenFault: { token: '', message: '' } });
    }
    // Third parties that report to a function bring no key of ours.
    if (!token && prefix !== '/functions/v1') {
      return problem(401, 'no_api_key', 'No API key found in request');
    }
    try {
      const caller: Caller = {
        claims: token ? await authenticate(token) : { role: 'anon' },
        address: senderOf(request),
      };
      return await (service.answer ? service.answer(request, caller) : service.fetch(whole(request), caller));
    } catch (error) {
      if (!(error instanceof InvalidToken)) throw error;
      if (prefix === '/storage/v1' && token) {
        const caller: Caller = { claims: { role: 'anon' }, address: senderOf(request) };
        return service.fetch(whole(request), { ...caller, tokenFault: { token, message: error.message } });
      }
      // A function may take tokens of its own; an unknown one is nobody's.
      if (prefix === '/functions/v1')
        return service.fetch(whole(request), { claims: { role: 'anon' }, address: senderOf(request) });
      return problem(401, error.code, error.message, {
        'www-authenticate': `Bearer error="invalid_token", error_description="${error.message}"`,
      });
    }
  };

  const answer = async (request: Request | PlainRequest): Promise<Response | PlainResponse> => {
    try {
      return withCors(await route(request), request, allowedOrigins);
    } catch (error) {
      onFault(error, 'backend');
      return problem(500, 'unexpected_failure', 'Something went wrong on our side');
    }
  };

  return {
    answer,
    async fetch(request) {
      const answered = await answer(request);
      return answered instanceof PlainResponse ? answered.toResponse() : answered;
    },
    serves: (path) => serviceOf(path) !== undefined,
    upgrade(request, socket, head) {
      const { origin, host } = request.headers;
      if (origin && hostOf(origin) !== host && !allowedOrigins.includes(origin)) {
        socket.end('HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-length: 0\r\n\r\n');
        return;
      }
      realtime.upgrade(request, socket, head);
    },
    async close() {
      await auth.close();
      await storage?.close();
      await realtime.close();
      await data.close();
    },
  };
}

// Where other sites' pages send their people back to with a form.
const formPosts = new Set(['/auth/v1/callback', '/auth/v1/sso/saml/acs']);

// They have rules of their own: which methods a function takes, it says itself.
const answersPreflights = new Set(['/auth/v1', '/functions/v1']);

/** Answers what a browser asks before it lets a page of another site send a request; comes after the origin is checked. */
function allowRequest(request: Request | PlainRequest): Response {
  const asked = request.headers.get('access-control-request-headers');
  return new Response(null, {
    status: 204,
    headers: {
      'access-control-allow-methods': 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS',
      ...(asked ? { 'access-control-allow-headers': asked } : {}),
      'access-control-max-age': '86400',
      vary: 'access-control-request-headers',
    },
  });
}

// What a page of another site may read of an answer besides what every page may.
const exposedHeaders = [
  'content-range',
  'preference-applied',
  'location',
  'etag',
  'content-disposition',
  'x-transformations',
  'tus-resumable',
  'tus-version',
  'tus-extension',
  'tus-max-size',
  'upload-offset',
  'upload-length',
  'upload-expires',
  'upload-metadata',
  'x-supabase-api-version',
];

const noMessages: Messages = {
  sendMail: async () => {
    throw new Error('nothing is set that sends mails');
  },
  sendText: async () => {
    throw new Error('nothing is set that sends text messages');
  },
};

function whole(request: Request | PlainRequest): Request {
  return request instanceof PlainRequest ? request.toRequest() : request;
}

function senderOf(request: Request | PlainRequest): string | null {
  return request.headers.get('x-forwarded-for')?.split(',')[0]?.trim() || null;
}

function bearer(request: Request | PlainRequest): string | null {
  return /^bearer\s+(\S+)$/i.exec(request.headers.get('authorization') ?? '')?.[1] ?? null;
}

function isOwnOrigin(origin: string, request: Request | PlainRequest): boolean {
  return hostOf(origin) === (request.headers.get('host') ?? new URL(request.url).host);
}

function hostOf(origin: string): string | null {
  return URL.canParse(origin) ? new URL(origin).host : null;
}

function problem(
  status: number,
  code: string,
  message: string,
  headers: Record<string, string> = {},
): Response {
  return Response.json({ code, message, details: null, hint: null }, { status, headers });
}

function withCors(
  answered: Response | PlainResponse,
  request: Request | PlainRequest,
  allowedOrigins: readonly string[],
): Response | PlainResponse {
  const origin = request.headers.get('origin');
  if (!origin || !allowedOrigins.includes(origin)) return answered;
  const response = answered instanceof PlainResponse ? answered.toResponse() : answered;
  const headers = new Headers(response.headers);
  headers.set('access-control-allow-origin', origin);
  headers.append('access-control-expose-headers', exposedHeaders.join(', '));
  headers.append('vary', 'origin');
  return new Response(response.body, { status: response.status, statusText: response.statusText, headers });
}
