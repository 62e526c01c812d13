// Shared types of the auth service: dependencies, parsed requests and routes.

import type { AccessTokens } from '../authenticate.ts';
import type { Database } from '../database/database.ts';
import type { Messages } from './codes/messages.ts';
import type { Passwords } from './passwords/passwords.ts';
import type { SessionRow, UserRow } from './rows.ts';
import type { AuthSettings } from './settings.ts';

/** Dependencies of every call. */
export interface AuthContext {
  database: Database;
  settings: AuthSettings;
  accessTokens: AccessTokens;
  messages: Messages;
  passwords: Passwords;
  /**
   * Derives values instead of storing them (refresh tokens). It changes with the secret API key, so nothing that must last may
   * be encrypted with it.
   */
  secret: string;
  /** The current time; SQL receives it as a parameter (`at(context)`), so that there is one clock. */
  now(): Date;
  onError(error: unknown): void;
}

/** Fields of a body: JSON or form, always an object. Read them with the functions of `fields.ts`. */
export type Fields = Readonly<Record<string, unknown>>;

/** A parsed request. */
export interface AuthRequest {
  raw: Request;
  method: string;
  url: URL;
  headers: Headers;
  /** Path parameters: `{ id: … }` for the pattern `/factors/:id`. */
  parameters: Readonly<Record<string, string>>;
  body: Fields;
  /** The caller's IP address, or null. */
  ip: string | null;
  userAgent: string | null;
  /** The bearer token, not verified; null without one. */
  bearer: string | null;
  /** Where to redirect the user afterwards: the requested URL when allowed, else the site (`redirectOf`). */
  redirectTo: string;
  /** Earliest time of the response, on the clock of `performance.now()`; set by `delayAnswer`. */
  heldUntil: number;
}

/** A request of a signed-in user: token, user and session were checked (not banned, not expired). */
export interface UserRequest extends AuthRequest {
  user: UserRow;
  /** Null for a token without a session (signed with the shared secret elsewhere). */
  session: SessionRow | null;
  claims: Readonly<Record<string, unknown>>;
}

interface RouteBase {
  method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Path below /auth/v1; `:name` stands for one part of it. */
  pattern: string;
  /** Maximum bytes of a body. Default: 64 KiB. */
  maxBodyBytes?: number;
}

type Handle = (request: AuthRequest, context: AuthContext) => Promise<Response>;

/** A route. `admin` requires the secret key or a token whose role is one of `settings.adminRoles`. */
export type Route =
  | (RouteBase & { needs: 'nothing' | 'admin'; handle: Handle })
  | (RouteBase & {
      needs: 'user';
      /** Anonymous users get 403 no_authorization. */
      refusesAnonymous?: boolean;
      handle: (request: UserRequest, context: AuthContext) => Promise<Response>;
    });

/** The handler of one `grant_type` of POST /token. */
export type Grants = Readonly<Record<string, Handle>>;

/** The context's time as SQL receives it. */
export const at = (context: Pick<AuthContext, 'now'>, plusSeconds = 0): string =>
  new Date(context.now().getTime() + plusSeconds * 1000).toISOString();
