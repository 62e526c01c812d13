// Speaks HTTP with Daraja: one retry when the access token has become invalid, and answers that may be anything.
import { keepAccessToken } from './access-token.ts';
import { type Fields, parseFields, readText } from './json-body.ts';
import type { DarajaSettings } from './settings.ts';
import type { TokenStore } from './token-store.ts';

const LARGEST_ANSWER_BYTES = 64 * 1024;
const DEFAULT_TIMEOUT_MS = 20_000;

/**
 * What came of a request: an answer of whatever kind; or it never left us; or it left and its answer is lost, so that
 * nobody knows whether it was carried out.
 */
export type DarajaReply =
  | { kind: 'answered'; status: number; body: string; fields: Fields | null }
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
// The connection was never made.
const unsentCodes = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT']);

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
        signal: AbortSignal.timeout(timeoutMs),
      });
      const { text } = await readText(response, LARGEST_ANSWER_BYTES);
      return {
        kind: 'answered',
        status: response.status,
        body: text,
        fields: parseFields(text),
        usedToken,
      };
    } catch (problem) {
      const kind = unsentCodes.has(errorCodeOf(problem)) ? 'not sent' : 'lost';
      return { kind, reason: reasonOf(problem) };
    }
  }

  return {
    settings,
    now,
    async post(path, fields) {
      const first = await postOnce(path, fields);
      if (first.kind !== 'answered' || !invalidTokenCodes.has(String(first.fields?.errorCode))) return first;
      return postOnce(path, fields, first.usedToken);
    },
  };
}

function causeOf(problem: unknown): unknown {
  return problem instanceof Error && problem.cause ? problem.cause : problem;
}

function errorCodeOf(problem: unknown): string {
  const { code } = causeOf(problem) as { code?: unknown };
  return typeof code === 'string' ? code : '';
}

/** Why it failed, in a word or two: messages of fetch may hold addresses. */
function reasonOf(problem: unknown): string {
  const code = errorCodeOf(problem);
  if (code) return code;
  return problem instanceof Error ? (problem.name === 'Error' ? problem.message : problem.name) : 'unknown';
}
