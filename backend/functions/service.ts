// Runs functions: finds the one a request names, within bounds of size and time. What they do is their own affair.
import type { Caller, Service } from '../caller.ts';

/** What a function gets beside the request. */
export interface FunctionContext {
  /** Who calls; `anon` when a third party calls without a key. */
  caller: Caller;
  /** Aborted when the caller has been told that the function took too long. */
  signal: AbortSignal;
}

/** A function: gets the request as it came in, with its full URL and its raw body. */
export type FunctionHandler = (request: Request, context: FunctionContext) => Promise<Response> | Response;

/** What the runner needs. */
export interface FunctionsOptions {
  /** By name, as in `/functions/v1/{name}`. */
  functions: Readonly<Record<string, FunctionHandler>>;
  /** Told about what functions throw, also after their time was up. Callers are never told. */
  onFault?: (error: unknown, functionName: string) => void;
  /** Bytes of a request's body; 1 MiB unless told. */
  bodyBytes?: number;
  /** Milliseconds a function may take; 60 s unless told. */
  timeLimitMilliseconds?: number;
}

const path = /^\/functions\/v1\/([^/]+)(?:\/|$)/;
const allowedMethods = 'GET, POST, PUT, PATCH, DELETE, OPTIONS';
const allowedHeaders = 'authorization, x-client-info, apikey, content-type, x-region';

/** A body that is larger than a function takes. */
class BodyTooLarge extends Error {}

/**
 * Makes the runner. Every method and body passes through to the function; only a browser's preflight is answered here.
 *
 * Answers of its own: 404 for an unknown function, 413 for a large body, 504 for one that took too long (these three with
 * `x-relay-error: true`, which functions-js reports as "the function was not reached"), and 500 for one that threw.
 */
export function createFunctionsService(options: FunctionsOptions): Service {
  const { functions, onFault = () => {}, bodyBytes = 1_048_576, timeLimitMilliseconds = 60_000 } = options;
  return {
    async fetch(request, caller) {
      const isPreflight =
        request.method === 'OPTIONS' && request.headers.has('access-control-request-method');
      if (isPreflight) return preflightAnswer(request);
      const name = nameIn(request.url);
      const handler = name !== null && Object.hasOwn(functions, name) ? functions[name] : undefined;
      if (name === null || !handler) return refusal(404, 'NOT_FOUND', 'Requested function was not found');

      const call = new AbortController();
      const timer = setTimeout(() => call.abort(), timeLimitMilliseconds);
      let isAnswered = false;
      const running = (async () => {
        const bounded = await withinSize(request, bodyBytes);
        return handler(bounded, { caller, signal: call.signal });
      })();
      // Nobody waits for it any more once its time is up, but what went wrong is still worth knowing.
      running.catch((error) => {
        if (isAnswered) onFault(error, name);
      });
      try {
        return readable(await Promise.race([running, aborted(call.signal)]));
      } catch (error) {
        if (error instanceof BodyTooLarge)
          return refusal(413, 'PAYLOAD_TOO_LARGE', `Request body is larger than ${bodyBytes} bytes`);
        if (error === call.signal) {
          onFault(new Error(`function "${name}" took longer than ${timeLimitMilliseconds} ms`), name);
          return refusal(504, 'TIMEOUT', 'Function took too long to answer');
        }
        onFault(error, name);
        return withCors(Response.json({ error: 'Internal Server Error' }, { status: 500 }));
      } finally {
        isAnswered = true;
        clearTimeout(timer);
      }
    },
  };
}

function nameIn(url: string): string | null {
  const encoded = path.exec(new URL(url).pathname)?.[1];
  if (!encoded) return null;
  try {
    return decodeURIComponent(encoded);
  } catch {
    return null;
  }
}

/**
 * The request itself when it says how long it is (the HTTP server holds it to that), else a copy with its body read.
 * @throws BodyTooLarge before the function has seen anything
 */
async function withinSize(request: Request, most: number): Promise<Request> {
  if (!request.body) return request;
  const length = request.headers.get('content-length');
  if (length !== null && /^\d+$/.test(length)) {
    if (Number(length) > most) throw new BodyTooLarge();
    return request;
  }
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of request.body) {
    size += chunk.length;
    if (size > most) throw new BodyTooLarge();
    chunks.push(chunk);
  }
  return new Request(request, { body: Buffer.concat(chunks) });
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

/** Lets any page read the answer, as keys and tokens and not cookies say who calls; a function may say otherwise. */
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
