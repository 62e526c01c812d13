// Runs functions by name, with limits of size and time.
import { decodeProtectedHeader } from 'jose';
import { type Caller, inShareOf, type Service } from '../caller.ts';

/** Context of a function call. */
interface FunctionContext {
  /** The caller; `anon` when a third party calls without a key. */
  caller: Caller;
  /** Aborted when the function timed out and the caller has its response. */
  signal: AbortSignal;
}

/** A function: receives the request with its full URL and raw body. */
export type FunctionHandler = (request: Request, context: FunctionContext) => Promise<Response> | Response;

/** A function and how the runner treats calls of it. */
export interface DeployedFunction {
  handler: FunctionHandler;
  /**
   * Whether calls need a valid access token or API key. `always`: one with a role of the API. `signature`: as `verify_jwt = true`
   * on a hosted project, which does not read the role; a call whose token names no role of the API runs as `anon`. `when-sent`: a
   * call without a token runs as `anon`; a wrong or expired token is refused. `never`: as `verify_jwt = false` on a hosted project;
   * a call whose token is not ours runs as `anon`, for third parties that send their own tokens. Default: `always`.
   */
  verifyJwt?: 'always' | 'signature' | 'when-sent' | 'never';
  /**
   * Whether the path of a call proves its sender, as a secret URL does. Such calls wait in a share of their own. Must be cheap: anyone
   * may send any path. Default: none does.
   */
  knowsSender?: (path: string) => boolean;
}

/** Dependencies of the service. */
export interface FunctionsOptions {
  /** By name, as in `/functions/v1/{name}`. */
  functions: Readonly<Record<string, DeployedFunction>>;
  /** Receives errors of functions, also after a timeout. Callers never see them. */
  onError?: (error: unknown, functionName: string, request: Request) => void;
  /** Maximum bytes of a request's body. Default: 1 MiB. */
  bodyBytes?: number;
  /** Bytes of a body that an anonymous caller sends. Default: `bodyBytes`. */
  anonymousBodyBytes?: number;
  /** Maximum milliseconds of a call. Default: 60 s. */
  timeLimitMilliseconds?: number;
}

const path = /^\/functions\/v1\/([^/]+)(?:\/|$)/;
const allowedMethods = 'GET, POST, PUT, PATCH, DELETE, OPTIONS';
const allowedHeaders = 'authorization, x-client-info, apikey, content-type, x-region';

/**
 * Creates the service. Every method and body passes through to the function; only preflight requests are answered here.
 *
 * Its own responses: 404 for an unknown function, 413 for a large body, 504 for one that took too long (these three with
 * `x-relay-error: true`, which functions-js reports as "the function was not reached"), 401 for a missing or wrong token
 * (`{code, message, msg}` and the header `sb-error-code`, as on a hosted project), and 500 for one that threw.
 */
export function createFunctionsService(options: FunctionsOptions): Service {
  const { functions, onError = () => {}, bodyBytes = 1_048_576, timeLimitMilliseconds = 60_000 } = options;
  const { anonymousBodyBytes = bodyBytes } = options;
  return {
    // Accepted tokens and methods are a function's own setting.
    policy: { badToken: 'reported', answersPreflight: true },
    async fetch(request, caller) {
      const isPreflight =
        request.method === 'OPTIONS' && request.headers.has('access-control-request-method');
      if (isPreflight) return preflightAnswer(request);
      const { pathname } = new URL(request.url);
      const name = nameIn(pathname);
      const deployed = name !== null && Object.hasOwn(functions, name) ? functions[name] : undefined;
      if (name === null || !deployed) return refusal(404, 'NOT_FOUND', 'Requested function was not found');
      const { handler, verifyJwt = 'always' } = deployed;
      const { tokenError } = caller;
      // Preflight requests have no token.
      if (tokenError && request.method !== 'OPTIONS' && isRefused(tokenError, verifyJwt))
        return tokenRefusal(tokenError.token);

      const maxBytes = caller.claims.role === 'anon' ? anonymousBodyBytes : bodyBytes;
      const bounded = await withinSize(request, maxBytes, caller.inShare !== undefined);
      if (!bounded) {
        return refusal(413, 'PAYLOAD_TOO_LARGE', `Request body is larger than ${maxBytes} bytes`);
      }
      const queue = knowsSender(functions, pathname) ? 'partners' : 'outbound';
      return inShareOf(caller, queue, 1, () => run(name, handler, bounded, caller));
    },
  };

  async function run(
    name: string,
    handler: FunctionHandler,
    request: Request,
    caller: Caller,
  ): Promise<Response> {
    const call = new AbortController();
    const timer = setTimeout(() => call.abort(), timeLimitMilliseconds);
    let isAnswered = false;
    const running = (async () => handler(request, { caller, signal: call.signal }))();
    // After a timeout no one waits for the result, but an error is still reported.
    running.catch((error) => {
      if (isAnswered) onError(error, name, request);
    });
    try {
      return readable(await Promise.race([running, aborted(call.signal)]));
    } catch (error) {
      if (error === call.signal) {
        onError(new Error(`function "${name}" took longer than ${timeLimitMilliseconds} ms`), name, request);
        return refusal(504, 'TIMEOUT', 'Function took too long to answer');
      }
      onError(error, name, request);
      return withCors(Response.json({ error: 'Internal Server Error' }, { status: 500 }));
    } finally {
      isAnswered = true;
      clearTimeout(timer);
    }
  }
}

function isRefused(
  { token, isSigned }: NonNullable<Caller['tokenError']>,
  verifyJwt: NonNullable<DeployedFunction['verifyJwt']>,
): boolean {
  switch (verifyJwt) {
    case 'always':
      return true;
    case 'signature':
      return !isSigned;
    case 'when-sent':
      return Boolean(token);
    case 'never':
      return false;
  }
}

/** Whether a function knows the sender of a call by its path, without a query. */
export function knowsSender(
  functions: Readonly<Record<string, DeployedFunction>>,
  pathname: string,
): boolean {
  const name = nameIn(pathname);
  const deployed = name !== null && Object.hasOwn(functions, name) ? functions[name] : undefined;
  return deployed?.knowsSender?.(pathname) ?? false;
}

function nameIn(pathname: string): string | null {
  const encoded = path.exec(pathname)?.[1];
  if (!encoded) return null;
  try {
    return decodeURIComponent(encoded);
  } catch {
    return null;
  }
}

/**
 * The request itself when it declares its length (which the HTTP server enforces), else a copy with the body read.
 * @param isReadFirst whether the body is read in any case: a slow sender must not hold a function's place in the queue
 * @returns null when the body is larger than accepted
 */
async function withinSize(request: Request, most: number, isReadFirst: boolean): Promise<Request | null> {
  if (!request.body) return request;
  const length = request.headers.get('content-length');
  if (length !== null && /^\d+$/.test(length)) {
    if (Number(length) > most) return null;
    if (!isReadFirst) return request;
  }
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of request.body) {
    size += chunk.length;
    if (size > most) return null;
    chunks.push(chunk);
  }
  // From parts, because the constructor refuses the HTTP server's request objects.
  const { url, method, headers, signal } = request;
  return new Request(url, { method, headers, signal, body: Buffer.concat(chunks) });
}

/** Rejects, with the signal itself, when the signal is given. */
function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, fail) => {
    signal.addEventListener('abort', () => fail(signal), { once: true });
  });
}

function readable(response: unknown): Response {
  if (!(response instanceof Response)) throw new TypeError('a function must answer with a Response');
  return withCors(response);
}

function refusal(status: number, code: string, message: string): Response {
  return withCors(Response.json({ code, message }, { status, headers: { 'x-relay-error': 'true' } }));
}

/** The codes of a hosted project, which go by the algorithm that the token names. */
function tokenRefusal(token: string | null): Response {
  if (!token) return unauthorized('UNAUTHORIZED_NO_AUTH_HEADER', 'Missing authorization header');
  let algorithm: unknown;
  try {
    algorithm = decodeProtectedHeader(token).alg;
  } catch {
    // Not a JWT.
  }
  switch (algorithm) {
    case undefined:
      return unauthorized('UNAUTHORIZED_INVALID_JWT_FORMAT', 'Invalid JWT format');
    case 'HS256':
      return unauthorized('UNAUTHORIZED_LEGACY_JWT', 'Invalid JWT');
    case 'ES256':
    case 'RS256':
      return unauthorized('UNAUTHORIZED_ASYMMETRIC_JWT', 'Invalid JWT');
    default:
      return unauthorized(
        'UNAUTHORIZED_UNSUPPORTED_TOKEN_ALGORITHM',
        `Unsupported JWT algorithm ${String(algorithm)}`,
      );
  }
}

function unauthorized(code: string, message: string): Response {
  return withCors(
    Response.json(
      { code, message, msg: message },
      {
        status: 401,
        headers: { 'sb-error-code': code, 'access-control-expose-headers': 'sb-error-code' },
      },
    ),
  );
}

/** Any page may read the response, because keys and tokens authenticate, not cookies; a function may override it. */
function withCors(response: Response): Response {
  if (response.headers.has('access-control-allow-origin')) return response;
  const headers = new Headers(response.headers);
  headers.set('access-control-allow-origin', '*');
  headers.append('access-control-expose-headers', 'x-relay-error');
  return new Response(response.body, {
    status: response.status,
    statusText: response.statusText,
    headers,
  });
}

function preflightAnswer(request: Request): Response {
  return new Response(null, {
    status: 204,
    headers: {
      'access-control-allow-origin': '*',
      'access-control-allow-methods': allowedMethods,
      'access-control-allow-headers': request.headers.get('access-control-request-headers') ?? allowedHeaders,
      'access-control-max-age': '86400',
      vary: 'access-control-request-headers',
    },
  });
}
