// The access token: requested by one process at a time, renewed early, and again if M-PESA rejects it.

import type { AccessToken, TokenStore } from '../../database/access-tokens.ts';
import { parseObject, readText } from '../../request-body.ts';
import type { DarajaSettings } from '../../settings.ts';
import { readLifetime } from './retry-after.ts';

const TOKEN_PATH = '/oauth/v1/generate?grant_type=client_credentials';
const MAX_RESPONSE_BYTES = 64 * 1024;
/** Shorter than a lease, so that two processes never request a token concurrently. */
const MAX_REQUEST_MS = 8_000;
const POLL_INTERVAL_MS = 150;
/** A token is renewed this long before it expires. */
const RENEWAL_MARGIN_MS = 60_000;
/** The documented lifetime, which no token outlives. */
const LONGEST_LIFETIME_MS = 3_599_000;

export interface AccessTokens {
  /**
   * Returns a token for a request.
   * @param stale a token that M-PESA has rejected: another one is returned
   * @throws if none is available
   */
  get(stale?: string): Promise<string>;
}

/**
 * Caches the token of an account in memory and shares it with other processes through the store, if there is one.
 * If the store fails, it requests its own token: an extra token is better than no payment.
 */
export function createAccessTokens(
  settings: DarajaSettings,
  options: { send: typeof fetch; now: () => Date; timeoutMs: number; store: TokenStore | null },
): AccessTokens {
  const { send, now, timeoutMs, store } = options;
  let cached: { value: string; freshUntil: number } | null = null;
  let pending: Promise<string> | null = null;

  function cache({ value, freshForMs }: AccessToken): string {
    cached = { value, freshUntil: now().getTime() + freshForMs };
    return value;
  }

  async function request(): Promise<AccessToken> {
    const response = await send(`${settings.baseUrl}${TOKEN_PATH}`, {
      headers: { authorization: `Basic ${btoa(`${settings.consumerKey}:${settings.consumerSecret}`)}` },
      signal: AbortSignal.timeout(Math.min(timeoutMs, MAX_REQUEST_MS)),
    });
    const { text } = await readText(response, MAX_RESPONSE_BYTES);
    const answer = parseObject(text);
    const value = answer?.access_token;
    if (!response.ok || typeof value !== 'string' || value === '') {
      // HTML comes from the firewall and does not mean that the credentials are wrong.
      const isPage = answer === null && text.trim() !== '';
      throw new Error(`no access token: ${isPage ? 'a web page, ' : ''}HTTP ${response.status}`);
    }
    // Documented as a number, sent as a string.
    const lifetimeMs = readLifetime(answer?.expires_in, LONGEST_LIFETIME_MS);
    return { value, freshForMs: Math.round(Math.max(lifetimeMs - RENEWAL_MARGIN_MS, lifetimeMs / 2)) };
  }

  async function share(tokens: TokenStore, stale: string | null): Promise<string> {
    const deadline = Date.now() + timeoutMs;
    while (true) {
      const lease = await tokens.lease(stale).catch(() => null);
      if (!lease) return cache(await request());
      if (lease.kind === 'fresh') return cache(lease.token);
      if (lease.kind === 'request') {
        let token: AccessToken;
        try {
          token = await request();
        } catch (error) {
          await tokens.store(lease.lease, null).catch(() => {});
          throw error;
        }
        await tokens.store(lease.lease, token).catch(() => {});
        return cache(token);
      }
      if (Date.now() > deadline) throw new Error('no access token: another process is requesting it');
      await new Promise((done) => setTimeout(done, POLL_INTERVAL_MS));
    }
  }

  async function fetchToken(stale: string | null): Promise<string> {
    return store ? share(store, stale) : cache(await request());
  }

  return {
    async get(stale) {
      if (cached && cached.value !== stale && now().getTime() < cached.freshUntil) return cached.value;
      pending ??= fetchToken(stale ?? null).finally(() => {
        pending = null;
      });
      const value = await pending;
      if (value !== stale) return value;
      // The pending request began before the token was found invalid.
      pending ??= fetchToken(stale).finally(() => {
        pending = null;
      });
      return pending;
    },
  };
}
