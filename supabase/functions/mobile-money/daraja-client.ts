// Speaks HTTP with Daraja: the access token, one retry when it has become invalid, and answers that may be anything.
import { type Fields, parseFields, readText } from './json-body.ts';
import type { DarajaSettings } from './settings.ts';

const LARGEST_ANSWER_BYTES = 64 * 1024;
const DEFAULT_TIMEOUT_MS = 20_000;
/** A token is renewed this long before it runs out. */
const RENEWED_EARLY_MS = 60_000;

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
 * A client of one merchant's account. Keeps its token in memory and asks for one at a time.
 * @param settings the merchant's account
 * @param options `fetch` and `now` to use instead of the global ones
 */
export function connectDaraja(
  settings: DarajaSettings,
  options: { fetch?: typeof fetch; now?: () => Date } = {},
): DarajaClient {
  const send = options.fetch ?? fetch;
  const now = options.now ?? (() => new Date());
  const timeoutMs = settings.timeoutMs ?? DEFAULT_TIMEOUT_MS;
  let token: { value: string; freshUntil: number } | null = null;
  let beingFetched: Promise<string> | null = null;

  async function accessToken(): Promise<string> {
    if (token && now().getTime() < token.freshUntil) return token.value;
    beingFetched ??= fetchToken().finally(() => {
      beingFetched = null;
    });
    return beingFetched;
  }

  async function fetchToken(): Promise<string> {
    const response = await send(`${settings.baseUrl}/oauth/v1/generate?grant_type=client_credentials`, {
      headers: { authorization: `Basic ${btoa(`${settings.consumerKey}:${settings.consumerSecret}`)}` },
      signal: AbortSignal.timeout(timeoutMs),
    });
    const { text } = await readText(response, LARGEST_ANSWER_BYTES);
    const answer = parseFields(text);
    const value = answer?.access_token;
    if (!response.ok || typeof value !== 'string' || value === '') {
      throw new Error(`no access token: HTTP ${response.status}`);
    }
    // A number in the documentation, a string in the wild. Unreadable: used once.
    const lifetimeMs = Number(answer?.expires_in) * 1000 || 0;
    token = { value, freshUntil: now().getTime() + lifetimeMs - RENEWED_EARLY_MS };
    return value;
  }

  async function postOnce(path: string, fields: Fields): Promise<DarajaReply & { usedToken?: string }> {
    let usedToken: string;
    try {
      usedToken = await accessToken();
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
      // Another request may have renewed it meanwhile.
      if (token?.value === first.usedToken) token = null;
      return postOnce(path, fields);
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
