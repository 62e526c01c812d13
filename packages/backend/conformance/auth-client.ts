// The official auth client and plain requests, for tests of a running auth service.
import { AuthClient, type AuthError, type GoTrueClient } from '@supabase/auth-js';
import type { OpenAuthService } from '../testing/open-auth-service.ts';

export const password = 'correct horse battery';
let counter = 0;
export const newEmail = () => `person${++counter}@example.com`;

/** A client with its own session storage. */
export function clientOf(service: OpenAuthService, flowType: 'implicit' | 'pkce' = 'implicit'): GoTrueClient {
  const stored = new Map<string, string>();
  return new AuthClient({
    url: service.url,
    headers: { apikey: service.keys.publishable },
    // The client caches public keys under this name for the whole process.
    storageKey: service.url,
    autoRefreshToken: false,
    persistSession: true,
    detectSessionInUrl: false,
    experimental: { passkey: true },
    flowType,
    storage: {
      getItem: (name) => stored.get(name) ?? null,
      setItem: (name, value) => void stored.set(name, value),
      removeItem: (name) => void stored.delete(name),
    },
  });
}

/** The admin API, called with the secret key. */
export const adminOf = (service: OpenAuthService) =>
  new AuthClient({
    url: service.url,
    headers: { apikey: service.keys.secret, Authorization: `Bearer ${service.keys.secret}` },
    autoRefreshToken: false,
    persistSession: false,
    experimental: { passkey: true },
  }).admin;

/** Status and code of an error. */
export const refusal = (error: AuthError | null) => [error?.status, error?.code];

/** A plain JSON request; the caller's IP address is the last of `x-forwarded-for`. */
export const post = (
  service: OpenAuthService,
  path: string,
  body: unknown,
  headers: Record<string, string> = {},
) =>
  fetch(service.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });

/** The fields of a page's form. */
export const formFieldsOf = (html: string): Record<string, string> =>
  Object.fromEntries(
    [...html.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)">/g)].map(
      ([, name = '', value = '']) => [
        name,
        value
          .replaceAll('&quot;', '"')
          .replaceAll('&lt;', '<')
          .replaceAll('&#39;', "'")
          .replaceAll('&amp;', '&'),
      ],
    ),
  );

/** Opens the page of an email's link and presses its button. The answer is not redirected. */
export async function pressLink(link: string, headers: Record<string, string> = {}): Promise<Response> {
  const page = await fetch(link, { headers });
  const fields = formFieldsOf(await page.text());
  return fetch(new URL('confirm', link), {
    method: 'POST',
    redirect: 'manual',
    headers,
    body: new URLSearchParams(fields),
  });
}
