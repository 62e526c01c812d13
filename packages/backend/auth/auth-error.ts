// Errors of the auth service, and their form per API version.
import { randomUUID } from 'node:crypto';

/** From this version on, an error's `code` is its name; before it, the HTTP status. */
const apiVersionWithErrorCodes = '2024-01-01';

/** An error as the caller receives it: HTTP status, name, one sentence, further fields. */
export class AuthError extends Error {
  override readonly name = 'AuthError';
  readonly status: number;
  readonly code: string;
  /** Further fields of the answer, such as `weak_password`. */
  readonly extra: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: number,
    code: string,
    message: string,
    more: { extra?: Record<string, unknown>; headers?: Record<string, string> } = {},
  ) {
    super(message);
    this.status = status;
    this.code = code;
    this.extra = more.extra ?? {};
    this.headers = more.headers ?? {};
  }
}

/** An OAuth 2.0 error (RFC 6749, section 5.2): id_token and web3 grants, external providers. */
export class OAuthError extends Error {
  override readonly name = 'OAuthError';
  readonly status: number;
  readonly error: string;

  constructor(error: string, description: string, status = 400) {
    super(description);
    this.error = error;
    this.status = status;
  }
}

/** 400 validation_failed. */
export const invalid = (message: string) => new AuthError(400, 'validation_failed', message);

/**
 * Writes an error response.
 * @param thrown an AuthError or OAuthError; anything else becomes 500 unexpected_failure, without details
 * @param apiVersion the `x-supabase-api-version` of the request, or null
 */
export function answerError(thrown: unknown, apiVersion: string | null): Response {
  if (thrown instanceof OAuthError) {
    return Response.json(
      { error: thrown.error, error_description: thrown.message },
      { status: thrown.status, headers: { 'cache-control': 'no-store' } },
    );
  }
  const isKnown = thrown instanceof AuthError;
  const error = isKnown
    ? thrown
    : new AuthError(
        500,
        'unexpected_failure',
        'Unexpected failure, please check server logs for more information',
      );
  const errorId = error.status >= 500 ? { error_id: randomUUID() } : {};
  const headers = { ...error.headers, 'x-sb-error-code': error.code, 'cache-control': 'no-store' };
  const isNamed = apiVersion !== null && apiVersion >= apiVersionWithErrorCodes;
  return isNamed
    ? Response.json(
        { code: error.code, message: error.message, ...error.extra },
        { status: error.status, headers: { ...headers, 'x-supabase-api-version': apiVersionWithErrorCodes } },
      )
    : Response.json(
        { code: error.status, error_code: error.code, msg: error.message, ...errorId, ...error.extra },
        { status: error.status, headers },
      );
}
