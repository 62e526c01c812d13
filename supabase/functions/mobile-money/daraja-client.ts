// Speaks HTTP with Daraja: one retry when the access token has become invalid, and answers that may be anything.
import { keepAccessToken } from './access-token.ts';
import { type Fields, parseFields, readText } from './json-body.ts';
import type { DarajaSettings } from './settings.ts';
import type { TokenStore } from './token-store.ts';

/** A page of a statement can be long; anything longer is no answer. */
const LARGEST_ANSWER_BYTES = 4 * 1024 * 1024;
const DEFAULT_TIMEOUT_MS = 20_000;

/**
 * What came of a request: an answer of whatever kind; or it never left us; or it left and its answer is lost, so that
 * nobody knows whether it was carried out.
 */
export type DarajaReply =
  | {
      kind: 'answered';
      status: number;
      body: string;
      fields: Fields | null;
      /** How long we are asked to wait, in milliseconds; absent when nothing is said. */
      retryAfterMs?: number;
    }
  | { kind: 'not sent'; reason: string }
  | { kind: 'lost'; reason: string };

export interface DarajaClient {
  readonly settings: DarajaSettings;
  now(): Date;
  /** Posts JSON to a path with a valid token. Never throws. */
  post(path: string, fields: Fields): Promise<DarajaReply>;
}

// "Invalid Access Token" and its kin (Daraja, error codes). Nothing was carried out, so asking again is safe.
const invalidTokenCodes = new Set(['400.003.01', '401.002.01', '401.003.01', '404.001.03']);
// The connection was never made, or the other side was not who it should be: nothing was said.
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
 * A client of one merchant's account.
 * @param settings the merchant's account
 * @param options `tokenStore`: where the access token is shared with other processes; default none, so that it lies in
 *   memory. `fetch` and `now`: to use instead of the global ones
 */
export function connectDaraja(
  settings: DarajaSettings,
  options: { fetch?: typeof fetch; now?: () => Date; tokenStore?: TokenStore } = {},
): DarajaClient {
  const send = options.fetch ?? fetch;
  const now = options.now ?? (() => new Date());
  const timeoutMs = settings.timeoutMs ?? DEFAULT_TIMEOUT_MS;
  const tokens = keepAccessToken(settings, { send, now, timeoutMs, store: options.tokenStore ?? null });

  async function postOnce(
    path: string,
    fields: Fields,
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
        // What is behind the gateway does not redirect: a web page that does is none of its answers.
        redirect: 'manual',
        signal: AbortSignal.timeout(timeoutMs),
      });
      const { text } = await readText(response, LARGEST_ANSWER_BYTES);
      return {
        kind: 'answered',
        status: response.status,
        body: text,
        fields: parseFields(text),
        ...readRetryAfter(response, now()),
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

/** Daraja says so with a code of its own, the gateway before it with HTTP 401. */
function callsTokenInvalid({ status, fields }: { status: number; fields: Fields | null }): boolean {
  return status === 401 || invalidTokenCodes.has(String(fields?.errorCode));
}

/** Retry-After names seconds or a moment. */
function readRetryAfter(response: Response, now: Date): { retryAfterMs?: number } {
  const text = response.headers.get('retry-after')?.trim();
  if (!text) return {};
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now.getTime();
  return Number.isFinite(ms) ? { retryAfterMs: Math.max(ms, 0) } : {};
}

function wasNeverSent(problem: unknown): boolean {
  const cause = causeOf(problem) as { syscall?: unknown; message?: unknown };
  // Deno has no codes: its message tells how far it got.
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

/** Why it failed, in a word or two: messages of fetch may hold addresses. */
function reasonOf(problem: unknown): string {
  const code = errorCodeOf(problem);
  if (code) return code;
  return problem instanceof Error ? (problem.name === 'Error' ? problem.message : problem.name) : 'unknown';
}
