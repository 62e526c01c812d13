// What the calls of the auth service are made of: what they share, what a request brings, how a route is declared.

import type { AccessTokens } from '../authenticate.ts';
import type { Database } from '../database/database.ts';
import type { Messages } from './messages.ts';
import type { Passwords } from './passwords.ts';
import type { SessionRow, UserRow } from './rows.ts';
import type { AuthSettings } from './settings.ts';

/** What every call works with. */
export interface AuthContext {
  database: Database;
  settings: AuthSettings;
  accessTokens: AccessTokens;
  messages: Messages;
  passwords: Passwords;
  /**
   * Makes what must be made again without being kept (refresh tokens). It changes with the secret API key: nothing that
   * must last may be encrypted with it.
   */
  secret: string;
  /** The time now; SQL gets it as a parameter (`at(context)`), so that one clock decides. */
  now(): Date;
  onFault(error: unknown): void;
}

/** Fields of a body: JSON or form, always an object. Read them with the functions of `fields.ts`. */
export type Fields = Readonly<Record<string, unknown>>;

/** A request, with what all calls need of it read once. */
export interface AuthRequest {
  raw: Request;
  method: string;
  url: URL;
  headers: Headers;
  /** Named parts of the path: `{ id: … }` for the pattern `/factors/:id`. */
  parameters: Readonly<Record<string, string>>;
  body: Fields;
  /** The network address it came from, or null. */
  ip: string | null;
  userAgent: string | null;
  /** What followed `Bearer`, not verified; null without. */
  bearer: string | null;
  /** Where to send the person afterwards: as asked for when allowed, else the site (reference: redirect allow rule). */
  redirectTo: string;
  /** When it may be answered at the earliest, on the clock of `performance.now()`; set by `delayAnswer`. */
  heldUntil: number;
}

/** A request of somebody who is signed in: token, user and session were checked (not banned, not over). */
export interface UserRequest extends AuthRequest {
  user: UserRow;
  /** Null for a token that names no session (signed by somebody who holds the shared secret). */
  session: SessionRow | null;
  claims: Readonly<Record<string, unknown>>;
}

interface RouteBase {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Path below /auth/v1; `:name` stands for one part of it. */
  pattern: string;
  /** Bytes that a body may have. Default: 64 KiB. */
  maxBodyBytes?: number;
}

type Handle = (request: AuthRequest, context: AuthContext) => Promise<Response>;

/** A call. `admin` takes the secret key or a token whose role is one of `settings.adminRoles`. */
export type Route =
  | (RouteBase & { needs: 'nothing' | 'admin'; handle: Handle })
  | (RouteBase & {
      needs: 'user';
      /** Anonymous people get 403 no_authorization. */
      refusesAnonymous?: boolean;
      handle: (request: UserRequest, context: AuthContext) => Promise<Response>;
    });

/** What POST /token does for one `grant_type`. */
export type Grants = Readonly<Record<string, Handle>>;

/** The context's time as SQL takes it. */
export const at = (context: Pick<AuthContext, 'now'>, plusSeconds = 0): string =>
  new Date(context.now().getTime() + plusSeconds * 1000).toISOString();
