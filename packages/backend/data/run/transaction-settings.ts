// Settings of a request's transaction: the request as SQL sees it, and the settings of its role and function.

import type { RequestSettings } from '../../database/as-role.ts';
import type { Isolation } from '../../database/database.ts';
import type { HeaderLookup } from '../../http/plain-request.ts';
import type { ParsedRequest } from '../parse/parse.ts';
import type { Plan } from '../plan/plan-types.ts';
import { quoted } from '../sql/sql-writer.ts';

/** The options that determine them. */
export interface TransactionSettingsOptions {
  /** Milliseconds after which PostgreSQL cancels a statement. Default: its own. PGlite cannot cancel. */
  statementTimeout?: number;
  /** Schemas searched after the request's own. Default: `extensions`. */
  extraSearchPath?: readonly string[];
  /** Settings of a called function that hold for the whole transaction. Default: PostgREST's list. */
  hoistedSettings?: readonly string[];
  /** Settings SQL may read, as `app.settings.…`. */
  appSettings?: Readonly<Record<string, string>>;
}

export interface TransactionSettings {
  request: RequestSettings;
  isolation?: Isolation;
}

/**
 * Creates the function that returns each request's settings.
 * @returns a function of the request, its path below the service's root, its parsed form, its plan, and the settings its
 * role was given, null for none
 */
export function createTransactionSettings({
  statementTimeout,
  extraSearchPath = ['extensions'],
  hoistedSettings = [
    'statement_timeout',
    'plan_filter.statement_cost_limit',
    'default_transaction_isolation',
  ],
  appSettings,
}: TransactionSettingsOptions) {
  const hoisted = new Set(hoistedSettings);
  return (
    request: { method: string; headers: HeaderLookup },
    path: string,
    { schema, preferences: { timeZone } }: ParsedRequest,
    plan: Plan,
    ofRole: ReadonlyMap<string, string> | null,
  ): TransactionSettings => {
    const headers = Object.fromEntries(request.headers);
    const cookies = cookiesOf(headers.cookie);
    delete headers.cookie;
    const lasting = lastingSettings(plan, ofRole, hoisted);
    const settings: RequestSettings = {
      method: request.method,
      path,
      headers,
      cookies,
      searchPath: [schema, ...extraSearchPath].map(quoted).join(', '),
    };
    if (lasting) settings.settings = { ...appSettings, ...Object.fromEntries(lasting) };
    else if (appSettings) settings.settings = appSettings;
    if (timeZone) settings.timeZone = timeZone;
    // A timeout of the role or the function takes precedence.
    if (statementTimeout !== undefined && !lasting?.has('statement_timeout')) {
      settings.statementTimeout = statementTimeout;
    }
    const isolation = lasting && isolationOf(lasting);
    return isolation ? { request: settings, isolation } : { request: settings };
  };
}

/** A function's settings take precedence over its role's. */
function lastingSettings(
  plan: Plan,
  ofRole: ReadonlyMap<string, string> | null,
  hoisted: ReadonlySet<string>,
): ReadonlyMap<string, string> | null {
  if (plan.kind !== 'call' || plan.called.settings.size === 0) return ofRole;
  const ofFunction = [...plan.called.settings].filter(([name]) => hoisted.has(name));
  return ofFunction.length > 0 ? new Map([...(ofRole ?? []), ...ofFunction]) : ofRole;
}

const isolations = new Set<string>(['read committed', 'repeatable read', 'serializable']);
const isIsolation = (value: string): value is Isolation => isolations.has(value);

/** The isolation level is fixed at the start of a transaction, so a later default would have no effect. */
function isolationOf(settings: ReadonlyMap<string, string>): Isolation | null {
  const isolation = settings.get('default_transaction_isolation')?.toLowerCase();
  return isolation !== undefined && isIsolation(isolation) ? isolation : null;
}

function cookiesOf(header: string | undefined): Record<string, string> {
  const cookies: Record<string, string> = {};
  for (const pair of header?.split(';') ?? []) {
    const equals = pair.indexOf('=');
    if (equals > 0) cookies[pair.slice(0, equals).trim()] = pair.slice(equals + 1).trim();
  }
  return cookies;
}
