// The root of the built-in services: identifies the caller and chooses the service.
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { ApiKeys } from './api-keys.ts';
import type { Messages } from './auth/codes/messages.ts';
import { createAuthService } from './auth/service.ts';
import { completeSettings, type GivenAuthSettings } from './auth/settings.ts';
import { createAuthenticate, InvalidToken, roleOfKey } from './authenticate.ts';
import type { Caller, Service } from './caller.ts';
import type { SizeLimits } from './data/parse/request-size.ts';
import { createDataService } from './data/service.ts';
import type { Claims } from './database/as-role.ts';
import { type Database, isUnavailable, retryAfterSeconds } from './database/database.ts';
import { createFunctionsService, type DeployedFunction, knowsSender } from './functions/service.ts';
import { isClientDisconnect } from './http/client-disconnect.ts';
import { addressOf, PlainRequest } from './http/plain-request.ts';
import { PlainResponse } from './http/plain-response.ts';
import { refuseUpgrade } from './http/refuse-upgrade.ts';
import { isQueueRejection, queueRejectionStatus, type Turn } from './limits/fair-queue.ts';
import { clientOf, type FairShare, partners } from './limits/fair-share.ts';
import { networksOf } from './limits/network.ts';
import { createRealtimeService, handshakeQuery, type RealtimeOptions } from './realtime/service.ts';
import type { FileStore } from './storage/files/file-store.ts';
import type { ImageProcess } from './storage/images/image-process.ts';
import { createStorageService } from './storage/service.ts';

export interface BackendOptions {
  database: Database;
  keys: ApiKeys;
  functions: Record<string, DeployedFunction>;
  /** Storage of uploaded files. Absent: no storage service. */
  files?: FileStore;
  /** The public URL; access tokens name it as their issuer. Default: `http://localhost:3000`. */
  publicUrl?: string;
  /** Settings of sign-in, and the transport of its emails and text messages. */
  auth?: { settings?: Partial<GivenAuthSettings>; messages?: Messages; now?: () => Date };
  /** Public senders, and limits. */
  realtime?: Pick<RealtimeOptions, 'publicSenders' | 'limits'>;
  /** Origins besides the services' own that may call them from a browser. */
  allowedOrigins?: readonly string[];
  /** Fair queues for requests from the network. Absent: requests start immediately. */
  fairShare?: FairShare;
  /**
   * Stricter limits of table queries in the anonymous role, for an application that knows what its visitors need. `maxBodyBytes` applies to
   * calls of the other services, too.
   */
  visitorLimits?: Partial<SizeLimits>;
  /** The same for signed-in callers. Requests with the secret key have the limits of every role only. */
  signedInLimits?: Partial<SizeLimits>;
  /** Widths and heights in pixels that visitors may request for rendered images. Default: any. */
  visitorImageSides?: readonly number[];
  /** The process that decodes images, which the caller closes. Default: one of the storage service. */
  imageProcess?: ImageProcess;
  /** Receives errors whose details are hidden from callers, and the `x-request-id` of the request, if it has one. */
  onError?: (error: unknown, where: string, requestId?: string) => void;
}

export interface Backend {
  /**
   * Answers a request of this process to one of the services, without queueing. Its `x-forwarded-for` must be trustworthy.
   */
  fetch(request: Request): Promise<Response>;
  /**
   * Answers a request from the network, which waits in the fair queues. Accepts plain requests too, and returns complete bodies
   * without a stream.
   * @param signal returns a signal that is aborted when the client disconnects
   */
  answer(request: Request | PlainRequest, signal: () => AbortSignal): Promise<Response | PlainResponse>;
  /** Whether a path belongs to the services. */
  serves(path: string): boolean;
  /** Whether a function knows the sender of a request by its path, and treats it before visitors. */
  knowsSender(path: string): boolean;
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Open WebSockets. */
  readonly sockets: number;
  close(): Promise<void>;
}

/**
 * Puts the services together.
 * @throws DatabaseError when the database cannot be reached
 */
export async function createBackend(options: BackendOptions): Promise<Backend> {
  const { database, keys, functions, fairShare, allowedOrigins = [] } = options;
  const onError = (error: unknown, where: string, request?: Pick<PlainRequest, 'headers'>) => {
    if (!isClientDisconnect(error) && !isQueueRejection(error))
      options.onError?.(error, where, request?.headers.get('x-request-id') ?? undefined);
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
  const visitorBodyBytes = options.visitorLimits?.maxBodyBytes ?? 1024 * 1024;
  const auth = await createAuthService({
    database,
    keys,
    settings: authSettings,
    messages: givenAuth.messages ?? noMessages,
    onError: (error, request) => onError(error, 'auth', request),
    ...(givenAuth.now ? { now: givenAuth.now } : {}),
  });
  const data = await createDataService({
    database,
    schemas: ['public'],
    // Visitors write queries, too: no query may multiply rows without a bound or occupy a connection for long.
    allowsCircles: false,
    limits: everyonesLimits,
    roleLimits: {
      anon: { maxAnswerBytes, ...options.visitorLimits },
      authenticated: { maxAnswerBytes, ...options.signedInLimits },
    },
    cachesDescriptions: true,
    statementTimeout: 8000,
    onError: (error, request) => onError(error, 'data', request),
  });
  const realtime = createRealtimeService({
    ...options.realtime,
    database,
    authenticate,
    ...(fairShare ? { joinQueue: fairShare.joins, backlog: fairShare.unread } : {}),
    onError: (error) => onError(error, 'realtime'),
  });
  const storage = options.files
    ? await createStorageService({
        database,
        files: options.files,
        signingSecret: keys.secret,
        settings: {
          anonymousJsonBytes: visitorBodyBytes,
          anonymousSides: options.visitorImageSides ?? null,
        },
        ...(fairShare ? { imageQueue: fairShare.images } : {}),
        ...(options.imageProcess ? { imageProcess: options.imageProcess } : {}),
        onError: (error, request) => onError(error, 'storage', request),
      })
    : null;
  const services: Record<string, Service> = {
    '/rest/v1': data,
    '/functions/v1': createFunctionsService({
      functions,
      anonymousBodyBytes: visitorBodyBytes,
      onError: (error, _name, request) => onError(error, 'functions', request),
    }),
    '/realtime/v1': realtime,
    ...(storage ? { '/storage/v1': storage } : {}),
    '/auth/v1': auth,
  };
  const serviceOf = (path: string) =>
    Object.keys(services).find((prefix) => path === prefix || path.startsWith(`${prefix}/`));

  const isSecretKey = (key: string | null) => key !== null && roleOfKey(keys, key) === 'service_role';

  const route = async (
    request: Request | PlainRequest,
    signal: (() => AbortSignal) | null,
  ): Promise<Response | PlainResponse> => {
    const { pathname } = addressOf(request);
    const prefix = serviceOf(pathname);
    const service = prefix && services[prefix];
    if (!service) return problem(404, 'not_found', 'No service has this path');
    const origin = request.headers.get('origin');
    const isForeign = origin !== null && !isOwnOrigin(origin, request) && !allowedOrigins.includes(origin);
    const { badToken, answersPreflight = false, formPaths = [] } = service.policy;
    const takesForms = formPaths.includes(pathname.slice(prefix.length));
    if (isForeign && !['GET', 'HEAD'].includes(request.method) && !takesForms) {
      return problem(403, 'origin_not_allowed', 'Requests from pages of other sites are not accepted');
    }
    const isPreflight = request.method === 'OPTIONS' && request.headers.has('access-control-request-method');
    if (origin && isPreflight && !answersPreflight) return allowRequest(request);
    const token = bearer(request) ?? apiKeyOf(request);
    if (isBrowser(request.headers.get('user-agent')) && [token, apiKeyOf(request)].some(isSecretKey)) {
      return Response.json(secretInBrowser, {
        status: 401,
        headers: { 'sb-error-code': secretInBrowserCode },
      });
    }
    const callerWith = (claims: Claims): Caller => {
      const caller: Caller = { claims, address: senderOf(request) };
      if (!signal || !fairShare) return caller;
      const client = clientOf(caller);
      // Other clients of the network that do not read their answers must not block staff.
      const networks = claims.role === 'anon' && caller.address ? networksOf(caller.address) : [];
      const inShare: Caller['inShare'] = (queue, cost, job) => {
        const run = async ({ addCost }: Turn) => {
          const release = queue === 'work' ? fairShare.unread.reserve(networks) : () => {};
          return job(addCost).finally(release);
        };
        return fairShare[queue].run(queue === 'partners' ? partners : client, run, { cost, signal });
      };
      return { ...caller, inShare };
    };
    const visitor = callerWith({ role: 'anon' });
    if (badToken === 'ignored') return service.fetch(whole(request), visitor);
    const refuse = (tokenError: NonNullable<Caller['tokenError']>, refusal: () => Response) =>
      badToken === 'reported' ? service.fetch(whole(request), { ...visitor, tokenError }) : refusal();
    if (!token) {
      const found = request.headers.has('authorization') ? '' : null;
      return refuse({ token: found, message: '', isSigned: false }, () =>
        problem(401, 'no_api_key', 'No API key found in request'),
      );
    }
    try {
      const caller = callerWith(await authenticate(token));
      return await (service.answer ? service.answer(request, caller) : service.fetch(whole(request), caller));
    } catch (error) {
      if (!(error instanceof InvalidToken)) throw error;
      const { message, isSigned } = error;
      return refuse({ token, message, isSigned }, () =>
        problem(401, error.code, error.message, {
          'www-authenticate': `Bearer error="invalid_token", error_description="${error.message}"`,
        }),
      );
    }
  };

  const answer = async (
    request: Request | PlainRequest,
    signal: (() => AbortSignal) | null,
  ): Promise<Response | PlainResponse> => {
    try {
      const answered = await route(request, signal).catch((error) => {
        if (isQueueRejection(error)) return tooBusy(error);
        throw error;
      });
      return withCors(answered, request, allowedOrigins);
    } catch (error) {
      onError(error, 'backend', request);
      if (isUnavailable(error)) {
        const headers = { 'retry-after': retryAfterSeconds };
        return problem(503, 'database_unavailable', 'The database is not available right now', headers);
      }
      return problem(500, 'unexpected_failure', 'Something went wrong on our side');
    }
  };

  return {
    answer,
    async fetch(request) {
      const answered = await answer(request, null);
      return answered instanceof PlainResponse ? answered.toResponse() : answered;
    },
    serves: (path) => serviceOf(path) !== undefined,
    knowsSender: (path) => knowsSender(functions, path),
    get sockets() {
      return realtime.sockets;
    },
    upgrade(request, socket, head) {
      const { origin, host } = request.headers;
      if (origin && hostOf(origin) !== host && !allowedOrigins.includes(origin)) {
        refuseUpgrade(socket, 403, '');
        return;
      }
      const apiKeys = [
        handshakeQuery(request).get('apikey'),
        request.headers['x-api-key']?.toString() ?? null,
      ];
      if (isBrowser(request.headers['user-agent']) && apiKeys.some(isSecretKey)) {
        refuseUpgrade(socket, 401, JSON.stringify({ error: secretInBrowser.message }));
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

// The response of a hosted project to the secret key from a browser, which it also detects by User-Agent alone. It shows operators
// a mistake, and is no access control: a script can set any User-Agent.
const secretInBrowserCode = 'UNAUTHORIZED_INVALID_API_KEY_TYPE';
const secretInBrowser = {
  message: 'Forbidden use of secret API key in browser',
  hint: 'Secret API keys can only be used in a protected environment and should never be used in a browser. Delete this secret API key immediately!',
};

/** Answers a preflight request, after the origin was checked. */
function allowRequest(request: Request | PlainRequest): Response {
  const requestedHeaders = request.headers.get('access-control-request-headers');
  return new Response(null, {
    status: 204,
    headers: {
      'access-control-allow-methods': 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS',
      ...(requestedHeaders ? { 'access-control-allow-headers': requestedHeaders } : {}),
      'access-control-max-age': '86400',
      vary: 'access-control-request-headers',
    },
  });
}

// Response headers that pages of other sites may read, besides the safelisted ones.
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

/** Maximum bytes of an answer to table queries without the secret key. */
const maxAnswerBytes = 16_000_000;

/** Limits of one request to the database, for callers of any role. */
const everyonesLimits: Partial<SizeLimits> = {
  // Planning takes time proportional to their third power.
  maxEmbeds: 12,
  maxPatternStates: 200,
  // PostgreSQL's parser recurses for each word, and the embedded one fails at about 7,000 characters.
  maxSearchLength: 4000,
};

function tooBusy(error: Error): Response {
  return problem(queueRejectionStatus(error), 'too_busy', `${error.message}. Please try again.`, {
    'retry-after': '5',
  });
}

const noMessages: Messages = {
  sendMail: async () => {
    throw new Error('no email transport is configured');
  },
  sendText: async () => {
    throw new Error('no text message gateway is configured');
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

function apiKeyOf(request: Request | PlainRequest): string | null {
  return request.headers.get('apikey') ?? new URLSearchParams(addressOf(request).search).get('apikey');
}

/** All browsers begin their User-Agent with `Mozilla/`. */
function isBrowser(userAgent: string | null | undefined): boolean {
  return userAgent?.includes('Mozilla/') ?? false;
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
  const exposed = exposedHeaders.join(', ');
  if (answered instanceof PlainResponse) {
    const { status, headers, body, statusText } = answered;
    const joined = (name: string, value: string) => [headers[name] ?? [], value].flat().join(', ');
    const added = {
      ...headers,
      'access-control-allow-origin': origin,
      'access-control-expose-headers': joined('access-control-expose-headers', exposed),
      vary: joined('vary', 'origin'),
    };
    return new PlainResponse(status, added, body, statusText);
  }
  const headers = new Headers(answered.headers);
  headers.set('access-control-allow-origin', origin);
  headers.append('access-control-expose-headers', exposed);
  headers.append('vary', 'origin');
  return new Response(answered.body, { status: answered.status, statusText: answered.statusText, headers });
}
