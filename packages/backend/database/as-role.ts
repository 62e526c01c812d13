// Runs SQL as the caller's role: the only place where an identity enters SQL.
import type { Database, Isolation, QueryResult, Session } from './database.ts';

/** Verified claims of a request: at least the database role, and those of the access token. */
export interface Claims {
  role: string;
  sub?: string;
  [claim: string]: unknown;
}

/** The request as SQL sees it: PostgREST's request.* settings. Header names are lower-case. */
export interface RequestSettings {
  method?: string;
  path?: string;
  headers?: Readonly<Record<string, string>>;
  cookies?: Readonly<Record<string, string>>;
  searchPath?: string;
  timeZone?: string;
  /** Milliseconds after which PostgreSQL cancels a statement. */
  statementTimeout?: number;
  /** Further settings of an application; names from the code or the operator, never from a request. */
  settings?: Readonly<Record<string, string>>;
}

/** Roles that a request may have. Other roles are rejected before any SQL runs. */
export const requestRoles: ReadonlySet<string> = new Set(['anon', 'authenticated', 'service_role']);

/**
 * Runs `work` as a role, under row level security, in one transaction: begin, one parameterised set_config, work, commit.
 * @param claims verified claims; `claims.role` must be one of `requestRoles`, unless any role is allowed
 * @param work gets the session; its result is returned after the commit
 * @throws Error when the role is not a request role; DatabaseError from the work
 */
export function asRole<T>(
  database: Database,
  claims: Claims,
  work: (session: Session) => Promise<T>,
  options: {
    readOnly?: boolean;
    isolation?: Isolation;
    request?: RequestSettings;
    allowsAnyRole?: boolean;
  } = {},
): Promise<T> {
  checkRole(claims, options.allowsAnyRole);
  return database.transaction(work, {
    readOnly: options.readOnly ?? false,
    ...(options.isolation ? { isolation: options.isolation } : {}),
    settings: settingsFor(claims, options.request),
  });
}

/**
 * Runs one statement as a role, under row level security, in its own read-only transaction.
 * @param claims as for `asRole`
 * @param options.isShort as for `Database.read`
 * @throws as `asRole`
 */
export function readAsRole<Row>(
  database: Database,
  claims: Claims,
  { sql, parameters }: { sql: string; parameters: readonly unknown[] },
  options: { request?: RequestSettings; allowsAnyRole?: boolean; isShort?: boolean } = {},
): Promise<QueryResult<Row>> {
  checkRole(claims, options.allowsAnyRole);
  return database.read<Row>(sql, parameters, settingsFor(claims, options.request), options.isShort);
}

/**
 * Runs one statement that may write as a role, under row level security, in its own transaction.
 * @param accept receives the result before the commit, and throws to roll back; null commits whatever the result
 * @throws as `asRole`
 */
export function writeAsRole<Row>(
  database: Database,
  claims: Claims,
  { sql, parameters }: { sql: string; parameters: readonly unknown[] },
  accept: ((result: QueryResult<Row>) => void) | null,
  options: { request?: RequestSettings; allowsAnyRole?: boolean } = {},
): Promise<QueryResult<Row>> {
  checkRole(claims, options.allowsAnyRole);
  return database.write<Row>(sql, parameters, settingsFor(claims, options.request), accept);
}

function checkRole({ role }: Claims, allowsAnyRole = false): void {
  if (!allowsAnyRole && !requestRoles.has(role)) throw new Error(`role "${role}" is not a request role`);
}

function settingsFor(claims: Claims, request: RequestSettings = {}): Record<string, string> {
  const settings: Record<string, string> = {
    ...request.settings,
    role: claims.role,
    'request.jwt.claims': JSON.stringify(claims),
    'request.method': request.method ?? '',
    'request.path': request.path ?? '',
    'request.headers': JSON.stringify(request.headers ?? {}),
    'request.cookies': JSON.stringify(request.cookies ?? {}),
    search_path: request.searchPath ?? 'public, extensions',
  };
  if (request.timeZone) settings.timezone = request.timeZone;
  if (request.statementTimeout !== undefined) settings.statement_timeout = String(request.statementTimeout);
  return settings;
}
