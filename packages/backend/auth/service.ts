// The auth service: routes requests, checks their requirements, and answers.
import { createHash } from 'node:crypto';
import type { ApiKeys } from '../api-keys.ts';
import { createAccessTokens } from '../authenticate.ts';
import { type Caller, inShareOf, type Service, type SharedQueue } from '../caller.ts';
import { type Database, DatabaseError, isUnavailable, retryAfterSeconds } from '../database/database.ts';
import { isQueueRejection } from '../limits/fair-queue.ts';
import { adminLinkRoutes } from './admin/links.ts';
import { adminUserRoutes } from './admin/users.ts';
import { AuthError, answerError, OAuthError } from './auth-error.ts';
import { confirmPageRoutes } from './codes/confirm-page.ts';
import type { Messages } from './codes/messages.ts';
import { passwordlessRoutes } from './codes/passwordless.ts';
import { verifyRoutes } from './codes/verify.ts';
import { waitUntilAnswerable } from './constant-time.ts';
import type { AuthContext, AuthRequest, Route } from './context.ts';
import { discoveryRoutes } from './discovery.ts';
import { externalGrants, externalRoutes } from './external/routes.ts';
import { mfaRoutes } from './mfa/routes.ts';
import { passkeyRoutes } from './passkeys/routes.ts';
import { createPasswords } from './passwords/passwords.ts';
import { readRequest } from './requests/read-request.ts';
import { checkAdmin, signedIn } from './sessions/signed-in.ts';
import { createTokenHandler, ownGrants } from './sessions/token.ts';
import { completeSettings, type GivenAuthSettings } from './settings.ts';
import { signUpRoutes } from './users/sign-up.ts';
import { userRoutes } from './users/user.ts';

export interface AuthServiceOptions {
  database: Database;
  keys: ApiKeys;
  settings: GivenAuthSettings;
  messages: Messages;
  /** Receives errors whose details no caller sees. */
  onError?: (error: unknown, request?: Request) => void;
  /** The clock. Default: the machine's. */
  now?: () => Date;
}

export interface AuthService extends Service {
  /** Waits for messages that are being sent. */
  close(): Promise<void>;
}

interface CompiledRoute {
  route: Route;
  pattern: RegExp;
}

/** Creates the service. It answers below `/auth/v1`, and also without that prefix. */
export async function createAuthService(options: AuthServiceOptions): Promise<AuthService> {
  const { database, keys, messages, onError = () => {}, now = () => new Date() } = options;
  const settings = completeSettings(options.settings);
  const pending = new Set<Promise<unknown>>();
  const context: AuthContext = {
    database,
    settings,
    accessTokens: createAccessTokens(
      keys,
      { issuer: settings.externalUrl, audience: settings.audience },
      now,
    ),
    messages: inBackground(messages, pending, onError),
    passwords: await createPasswords(settings.password, settings.passwordHashCost),
    secret: createHash('sha256').update(`auth service\0${keys.secret}`).digest('base64url'),
    now,
    onError,
  };
  const answer = async (raw: Request, caller: Caller): Promise<Response> => {
    const path = pathOf(raw);
    const fitting = routes.filter(({ pattern }) => pattern.test(path));
    if (fitting.length === 0) return new Response('404 page not found\n', { status: 404 });
    const found = fitting.find(({ route }) => route.method === raw.method);
    if (!found) {
      const allow = fitting.map(({ route }) => route.method).join(', ');
      // GoTrue's answer is empty, and its client reports an empty answer as a failed connection.
      throw new AuthError(405, 'method_not_allowed', `${raw.method} is not supported here`, {
        headers: { allow },
      });
    }
    const { route, pattern } = found;
    const parameters = { ...pattern.exec(path)?.groups };
    // Before reading the body: some of an administrator's are large.
    if (route.needs === 'admin') await checkAdmin(raw.headers, context, keys);
    const request = await readRequest(raw, caller, parameters, settings, route);
    const handle = () => handleRequest(route, request);
    try {
      // A change may hash a password, the most expensive operation here.
      return await inShareOf(
        caller,
        queues.get(route) ?? 'work',
        ['GET', 'HEAD'].includes(raw.method) ? 2 : 10,
        handle,
      );
    } finally {
      await waitUntilAnswerable(request);
    }
  };
  const handleRequest = async (route: Route, request: AuthRequest): Promise<Response> => {
    if (route.needs === 'user') {
      const userRequest = await signedIn(request, context);
      if (route.refusesAnonymous && userRequest.user.is_anonymous) {
        throw new AuthError(403, 'no_authorization', 'Anonymous user not allowed to perform these actions');
      }
      return route.handle(userRequest, context);
    }
    return route.handle(request, context);
  };

  return {
    // Links in emails and providers that redirect people back bring no key.
    policy: {
      badToken: 'ignored',
      answersPreflight: true,
      formPaths: ['/callback', '/sso/saml/acs', '/verify/confirm'],
    },
    async fetch(request, caller) {
      if (request.method === 'OPTIONS') return answerPreflight(request);
      try {
        return await answer(request, caller);
      } catch (thrown) {
        if (isQueueRejection(thrown)) throw thrown;
        const error = answerable(thrown);
        if (isUnavailable(thrown) || !(error instanceof AuthError || error instanceof OAuthError))
          onError(thrown, request);
        return answerError(error, request.headers.get('x-supabase-api-version'));
      }
    },
    async close() {
      await Promise.all(pending);
    },
  };
}

const token = createTokenHandler({ ...ownGrants, ...externalGrants });

const routes: readonly CompiledRoute[] = [
  ...signUpRoutes,
  { method: 'POST', pattern: '/token', needs: 'nothing', handle: token } satisfies Route,
  ...passwordlessRoutes,
  ...verifyRoutes,
  ...confirmPageRoutes,
  ...userRoutes,
  ...discoveryRoutes,
  ...adminUserRoutes,
  ...adminLinkRoutes,
  ...mfaRoutes,
  ...passkeyRoutes,
  ...externalRoutes,
].map(compile);

/** Paths that answer GET; `:name` stands for one part. */
export const readableAuthPaths: readonly string[] = routes
  .filter(({ route }) => route.method === 'GET')
  .map(({ route }) => route.pattern);

/** The queue of routes other than `work`. Identity providers are requested over the network. */
const queues: ReadonlyMap<Route, SharedQueue> = new Map([
  ...externalRoutes.map((route) => [route, 'outbound'] as const),
  ...[...signUpRoutes, ...passwordlessRoutes].map((route) => [route, 'messages'] as const),
]);

/** Sends in the background, because the duration would reveal whether an address is known. */
function inBackground(
  messages: Messages,
  pending: Set<Promise<unknown>>,
  onError: (error: unknown) => void,
): Messages {
  const start = (send: () => Promise<unknown>) => {
    const sending = Promise.resolve().then(send).catch(onError);
    pending.add(sending);
    void sending.finally(() => pending.delete(sending));
  };
  return {
    async sendMail(mail) {
      start(() => messages.sendMail(mail));
    },
    async sendText(message) {
      start(() => messages.sendText(message));
      return undefined;
    },
  };
}

function compile(route: Route): CompiledRoute {
  const source = route.pattern
    .split('/')
    .map((part) =>
      part.startsWith(':') ? `(?<${part.slice(1)}>[^/]+)` : part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'),
    )
    .join('/');
  return { route, pattern: new RegExp(`^${source}$`) };
}

function pathOf(request: Request): string {
  const path = new URL(request.url).pathname.replace(/^\/auth\/v1(?=\/|$)/, '');
  let end = path.length;
  while (end > 1 && path[end - 1] === '/') end -= 1;
  return path.slice(0, end) || '/';
}

// Serialization failure, deadlock, lock not available.
const isContention = (thrown: unknown) =>
  thrown instanceof DatabaseError && ['40001', '40P01', '55P03'].includes(thrown.code);

/** The error to answer with: temporary states of the database have one that clients retry. */
function answerable(thrown: unknown): unknown {
  if (isContention(thrown))
    return new AuthError(
      409,
      'conflict',
      'Too many concurrent requests for the same thing, please try again',
    );
  if (!isUnavailable(thrown)) return thrown;
  return new AuthError(
    503,
    'database_unavailable',
    'The database is not available right now, please try again',
    {
      headers: { 'retry-after': retryAfterSeconds },
    },
  );
}

function answerPreflight(request: Request): Response {
  return new Response(null, {
    status: 204,
    headers: {
      'access-control-allow-methods': 'GET, POST, PUT, PATCH, DELETE, OPTIONS',
      'access-control-allow-headers':
        request.headers.get('access-control-request-headers') ??
        'authorization, apikey, content-type, x-client-info, x-supabase-api-version',
      'access-control-max-age': '86400',
    },
  });
}
