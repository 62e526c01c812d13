// The HTTP client of Daraja, with one retry if the access token has become invalid.

import type { TokenStore } from '../../database/access-tokens.ts';
import { type JsonObject, parseObject, readText } from '../../request-body.ts';
import type { DarajaSettings } from '../../settings.ts';
import { createAccessTokens } from './access-token.ts';
import { readRetryAfter } from './retry-after.ts';

/** Pages of a statement can be long. */
const MAX_RESPONSE_BYTES = 4 * 1024 * 1024;
const DEFAULT_TIMEOUT_MS = 20_000;

/**
 * The result of a request: an answer of any status; or it was not sent; or it was sent and its answer is lost, so that
 * it is unknown whether M-PESA carried it out.
 */
export type DarajaReply =
  | {
      kind: 'answered';
      status: number;
      body: string;
      fields: JsonObject | null;
      /** Requested delay in milliseconds, within bounds; absent without one. */
      retryAfterMs?: number;
    }
  | { kind: 'not sent'; reason: string }
  | { kind: 'lost'; reason: string };

export interface DarajaClient {
  readonly settings: DarajaSettings;
  now(): Date;
  /** Posts JSON to a path with a valid token. Never throws. */
  post(path: string, fields: JsonObject): Promise<DarajaReply>;
}

// "Invalid Access Token" and similar (Daraja, error codes). Nothing was carried out, so a retry is safe.
const invalidTokenCodes = new Set(['400.003.01', '401.002.01', '401.003.01', '404.001.03']);
// No connection, or the wrong server: nothing was sent.
const unsentCodes = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'UND_ERR_CONNECT_TIMEOUT',
  'CERT_HAS_EXPIRED',
  'CERT_NOT_YET_VALID',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);

/**
 * Creates a client for one merchant's account.
 * @param settings the merchant's account
 * @param options `tokenStore` shares the access token with other processes. Default: none, the token stays in
 *   memory. `fetch` and `now` replace the global ones
 */
export function connectDaraja(
  settings: DarajaSettings,
  options: { fetch?: typeof fetch; now?: () => Date; tokenStore?: TokenStore } = {},
): DarajaClient {
  const send = options.fetch ?? fetch;
  const now = options.now ?? (() => new Date());
  const timeoutMs = settings.timeoutMs ?? DEFAULT_TIMEOUT_MS;
  const tokens = createAccessTokens(settings, { send, now, timeoutMs, store: options.tokenStore ?? null });

  async function postOnce(
    path: string,
    fields: JsonObject,
    staleToken?: string,
  ): Promise<DarajaReply & { usedToken?: string }> {
    let usedToken: string;
    try {
      usedToken = await tokens.get(staleToken);
    } catch (problem) {
      return { kind: 'not sent', reason: reasonOf(problem) };
    }
    try {
      const response = await send(`${settings.baseUrl}${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${usedToken}`, 'content-type': 'application/json' },
        body: JSON.stringify(fields),
        // Daraja does not redirect: a redirect comes from something else.
        redirect: 'manual',
        signal: AbortSignal.timeout(timeoutMs),
      });
      const { text } = await readText(response, MAX_RESPONSE_BYTES);
      const retryAfterMs = readRetryAfter(response.headers.get('retry-after'), now());
      return {
        kind: 'answered',
        status: response.status,
        body: text,
        fields: parseObject(text),
        ...(retryAfterMs === null ? {} : { retryAfterMs }),
        usedToken,
      };
    } catch (problem) {
      return { kind: wasNeverSent(problem) ? 'not sent' : 'lost', reason: reasonOf(problem) };
    }
  }

  return {
    settings,
    now,
    async post(path, fields) {
      const first = await postOnce(path, fields);
      if (first.kind !== 'answered' || !callsTokenInvalid(first)) return first;
      return postOnce(path, fields, first.usedToken);
    },
  };
}

/** Daraja answers with its own error code, its gateway with HTTP 401. */
function callsTokenInvalid({ status, fields }: { status: number; fields: JsonObject | null }): boolean {
  // The app lacks the API: another token would not help, and would invalidate this one.
  if (lacksProduct(fields)) return false;
  return status === 401 || invalidTokenCodes.has(String(fields?.errorCode));
}

/** Whether Daraja refused a request because the app has no such API ("no apiproduct match found"). */
export function lacksProduct(fields: JsonObject | null): boolean {
  return /no api ?product match/i.test(String(fields?.errorMessage));
}

function wasNeverSent(problem: unknown): boolean {
  const cause = causeOf(problem) as { syscall?: unknown; message?: unknown };
  // Deno's errors have no code, only a message.
  const isDenoConnect = typeof cause.message === 'string' && /client error \(Connect\)/.test(cause.message);
  return unsentCodes.has(errorCodeOf(problem)) || cause.syscall === 'connect' || isDenoConnect;
}

function causeOf(problem: unknown): unknown {
  return problem instanceof Error && problem.cause ? problem.cause : problem;
}

function errorCodeOf(problem: unknown): string {
  const code = (causeOf(problem) as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : '';
}

/** A short reason without URLs, which messages of fetch may contain. */
function reasonOf(problem: unknown): string {
  const code = errorCodeOf(problem);
  if (code) return code;
  return problem instanceof Error ? (problem.name === 'Error' ? problem.message : problem.name) : 'unknown';
}
