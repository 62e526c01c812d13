// Redirects a browser with the result of a sign-in in the URL's query and fragment.
import { AuthError, OAuthError } from '../auth-error.ts';
import type { TokenResponse } from '../sessions/sessions.ts';

/** A redirect that is not cached. */
export function redirect(status: 302 | 303, location: string): Response {
  return new Response(null, { status, headers: { location, 'cache-control': 'no-store' } });
}

/** Adds to a URL's query. */
export function withQuery(place: string, parameters: Readonly<Record<string, string>>): string {
  const url = new URL(place);
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return url.href;
}

/** Adds tokens to a URL's fragment, which is not sent to servers. */
export function withTokens(place: string, tokens: TokenResponse): string {
  const fragment = new URLSearchParams({
    access_token: tokens.access_token,
    expires_at: String(tokens.expires_at),
    expires_in: String(tokens.expires_in),
    ...(tokens.provider_refresh_token ? { provider_refresh_token: tokens.provider_refresh_token } : {}),
    ...(tokens.provider_token ? { provider_token: tokens.provider_token } : {}),
    refresh_token: tokens.refresh_token,
    sb: '',
    token_type: tokens.token_type,
  });
  const url = new URL(place);
  url.hash = fragment.toString();
  return url.href;
}

/** Adds an error to a URL's query, and to its fragment when `isInFragment`. */
export function withError(place: string, error: AuthError | OAuthError, isInFragment: boolean): string {
  const parameters: Record<string, string> =
    error instanceof OAuthError
      ? { error: error.error, error_description: error.message }
      : { error: oauthErrorOf(error), error_code: error.code, error_description: error.message };
  const url = new URL(withQuery(place, parameters));
  if (isInFragment) url.hash = new URLSearchParams({ ...parameters, sb: '' }).toString();
  return url.href;
}

/** The public form of an error; unexpected ones become a 500. */
export function asAuthError(thrown: unknown): AuthError | OAuthError {
  if (thrown instanceof AuthError || thrown instanceof OAuthError) return thrown;
  return new AuthError(
    500,
    'unexpected_failure',
    'Unexpected failure, please check server logs for more information',
  );
}

const deniedCodes = ['signup_disabled', 'user_banned', 'provider_email_needs_verification'];
const oauthErrors: Record<number, string> = {
  400: 'invalid_request',
  401: 'unauthorized_client',
  403: 'access_denied',
  503: 'temporarily_unavailable',
};

function oauthErrorOf({ status, code }: AuthError): string {
  return deniedCodes.includes(code) ? 'access_denied' : (oauthErrors[status] ?? 'server_error');
}
