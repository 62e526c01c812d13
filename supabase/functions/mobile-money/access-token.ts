// The access token: asked for by one at a time, renewed early, and again when M-PESA calls it invalid.
import { parseFields, readText } from './json-body.ts';
import type { DarajaSettings } from './settings.ts';
import type { AccessToken, TokenStore } from './token-store.ts';

const TOKEN_PATH = '/oauth/v1/generate?grant_type=client_credentials';
const LARGEST_ANSWER_BYTES = 64 * 1024;
/** Less than a lease lasts, so that two never ask at once. */
const LONGEST_ASKING_MS = 8_000;
const LOOKS_AGAIN_AFTER_MS = 150;
/** A token is renewed this long before it runs out. */
const RENEWED_EARLY_MS = 60_000;
/** What the documentation promises; where the answer does not say. */
const USUAL_LIFETIME_MS = 3_599_000;

export interface AccessTokens {
  /**
   * A token to send with a request.
   * @param stale one that M-PESA has called invalid: another is given
   * @throws when none can be had
   */
  get(stale?: string): Promise<string>;
}

/**
 * Keeps the token of an account in memory and, where there is a store, shares it with other processes through that.
 * Without its store it asks for itself: a token too many is better than no payment.
 */
export function keepAccessToken(
  settings: DarajaSettings,
  world: { send: typeof fetch; now: () => Date; timeoutMs: number; store: TokenStore | null },
): AccessTokens {
  const { send, now, timeoutMs, store } = world;
  let known: { value: string; freshUntil: number } | null = null;
  let beingFetched: Promise<string> | null = null;

  function remember({ value, freshForMs }: AccessToken): string {
    known = { value, freshUntil: now().getTime() + freshForMs };
    return value;
  }

  async function ask(): Promise<AccessToken> {
    const response = await send(`${settings.baseUrl}${TOKEN_PATH}`, {
      headers: { authorization: `Basic ${btoa(`${settings.consumerKey}:${settings.consumerSecret}`)}` },
      signal: AbortSignal.timeout(Math.min(timeoutMs, LONGEST_ASKING_MS)),
    });
    const { text } = await readText(response, LARGEST_ANSWER_BYTES);
    const answer = parseFields(text);
    const value = answer?.access_token;
    if (!response.ok || typeof value !== 'string' || value === '') {
      // A web page is the firewall's: it says nothing about the credentials.
      const isPage = answer === null && text.trim() !== '';
      throw new Error(`no access token: ${isPage ? 'a web page, ' : ''}HTTP ${response.status}`);
    }
    // A number in the documentation, a string in the wild.
    const lifetimeMs = Number(answer?.expires_in) * 1000 || USUAL_LIFETIME_MS;
    return { value, freshForMs: Math.round(Math.max(lifetimeMs - RENEWED_EARLY_MS, lifetimeMs / 2)) };
  }

  async function share(tokens: TokenStore, stale: string | null): Promise<string> {
    const patience = Date.now() + timeoutMs;
    while (true) {
      const lease = await tokens.lease(stale).catch(() => null);
      if (!lease) return remember(await ask());
      if (lease.kind === 'fresh') return remember(lease.token);
      if (lease.kind === 'ask') {
        let token: AccessToken;
        try {
          token = await ask();
        } catch (problem) {
          await tokens.keep(lease.lease, null).catch(() => {});
          throw problem;
        }
        await tokens.keep(lease.lease, token).catch(() => {});
        return remember(token);
      }
      if (Date.now() > patience) throw new Error('no access token: another process is asking');
      await new Promise((done) => setTimeout(done, LOOKS_AGAIN_AFTER_MS));
    }
  }

  async function fetchOne(stale: string | null): Promise<string> {
    return store ? share(store, stale) : remember(await ask());
  }

  return {
    async get(stale) {
      if (known && known.value !== stale && now().getTime() < known.freshUntil) return known.value;
      beingFetched ??= fetchOne(stale ?? null).finally(() => {
        beingFetched = null;
      });
      const value = await beingFetched;
      if (value !== stale) return value;
      // It was fetched for somebody who did not know yet that it is invalid.
      beingFetched ??= fetchOne(stale).finally(() => {
        beingFetched = null;
      });
      return beingFetched;
    },
  };
}
