// The table-query service: parse, plan, write, run, respond.

import type { Caller, Service } from '../caller.ts';
import { asRole, requestRoles } from '../database/as-role.ts';
import type { Database, Session } from '../database/database.ts';
import { Fault } from './fault.ts';
import { openApiOf } from './openapi.ts';
import { type ParsedRequest, parseRequest } from './parse.ts';
import { readBody } from './payload.ts';
import {
  type CallPlan,
  type DescriptionPlan,
  type MutationPlan,
  type PlanLimits,
  planRequest,
  type ReadPlan,
} from './plan.ts';
import { checkAnswer, respond, respondDocument, respondOptions } from './respond.ts';
import { faultOf, respondFault } from './respond-fault.ts';
import { loadSchemaCache, type SchemaCache } from './schema-cache.ts';
import { type Answer, writeEstimate, writeExplanation, writeStatement } from './sql.ts';
import { type DescribedSchema, writeDescription } from './sql-description.ts';
import { nameOf, quoted } from './sql-writer.ts';

/** Settings of the service. */
export interface DataServiceOptions {
  database: Database;
  /** The schemas whose relations and functions are exposed; the first is meant when a request names none. */
  schemas: readonly string[];
  /** Most bytes of a request's body; 1 MiB unless told. */
  maxBodyBytes?: number;
  /** Most rows a read or a function gives, and most embedded in any one row; 1000 unless told. */
  maxRows?: number;
  /** How deep embeds may nest; 10 unless told. */
  maxEmbedDepth?: number;
  /** Whether embedding many rows may lead back to a relation above them; it may unless told. */
  allowsCircles?: boolean;
  /** Milliseconds after which PostgreSQL cancels a statement; its own default unless told. PGlite cannot cancel. */
  statementTimeout?: number;
  /** Whether a client may have its transaction undone with `Prefer: tx=rollback`; it may not unless told. */
  allowsRollback?: boolean;
  /** Whether a transaction is undone unless the client, where it may, asks otherwise; it is kept unless told. */
  rollsBack?: boolean;
  /** The role of who shows no identity; `anon` unless told. */
  anonymousRole?: string;
  /** Whether a verified token may name any role of the database; only the platform's unless told. */
  allowsAnyRole?: boolean;
  /** Schemas searched after the request's own; `extensions` unless told. */
  extraSearchPath?: readonly string[];
  /** A function called, in the request's role, before every request's own work: its name, qualified by its schema. */
  preRequest?: { schema: string; name: string };
  /** Whether clients may aggregate; they may not unless told. */
  allowsAggregates?: boolean;
  /** Whether clients may see execution plans; they may not unless told. */
  allowsPlan?: boolean;
  /** What the root describes: what the caller may use, unless told; everything; nothing. */
  openApiMode?: PlanLimits['openApiMode'];
  /** Whether the description tells that tokens are sent; it does not unless told. */
  openApiSecurity?: boolean;
  /** The service's address in the description; that of the request unless told. */
  openApiAddress?: string;
  /** A function of the request's schema that answers at the root in place of the description. */
  rootFunction?: string;
  /** Settings SQL may read, as `app.settings.…`. */
  appSettings?: Readonly<Record<string, string>>;
  /** Told about faults that are not the client's, and about a schema that could not be read again. */
  onFault?: (error: unknown) => void;
}

const root = '/rest/v1';
/** Milliseconds until a schema that could not be read is read again. */
const retryAfter = 500;

/**
 * Makes the service for the paths below `/rest/v1`.
 * @returns the service; it reads the schema anew on `notify pgrst, 'reload schema'` until it is closed
 * @throws DatabaseError when the schema cannot be read
 */
export async function createDataService(
  options: DataServiceOptions,
): Promise<Service & { close(): Promise<void> }> {
  const { database, schemas, onFault = () => {} } = options;
  const limits = {
    maxRows: options.maxRows ?? 1000,
    maxEmbedDepth: options.maxEmbedDepth ?? 10,
    allowsCircles: options.allowsCircles ?? true,
    allowsAggregates: options.allowsAggregates ?? false,
    allowsPlan: options.allowsPlan ?? false,
    openApiMode: options.openApiMode ?? 'follow-privileges',
  };
  const context = { schemas, rootFunction: options.rootFunction ?? null };
  const { anonymousRole = 'anon', allowsAnyRole = false, rollsBack = false, preRequest } = options;
  const extraSearchPath = options.extraSearchPath ?? ['extensions'];
  const callBefore = preRequest && `select ${nameOf(preRequest)}()`;
  const maxBodyBytes = options.maxBodyBytes ?? 1024 * 1024;
  const schema = await followSchema(database, schemas, onFault);

  async function serve(request: Request, caller: Caller): Promise<Response> {
    if (!allowsAnyRole && !requestRoles.has(caller.claims.role)) {
      throw new Fault(401, { code: '22023', message: `role "${caller.claims.role}" does not exist` });
    }
    const url = new URL(request.url);
    const path = url.pathname.startsWith(root) ? url.pathname.slice(root.length) : url.pathname;
    const search = url.search.slice(1);
    const { cache } = schema;
    const body = await readBody(request, maxBodyBytes);
    const parsed = parseRequest(
      { method: request.method, path, search, headers: request.headers, body },
      context,
    );
    const plan = planRequest(parsed, cache, limits);
    if (plan.kind === 'options') return respondOptions(plan);
    const isRolledBack = rollbackWish(parsed, plan);
    const work = async (session: Session) => {
      if (callBefore) await session.query(callBefore);
      const response =
        plan.kind === 'description'
          ? await describe(session, parsed, plan, url)
          : await answer(session, parsed, plan, search, isRolledBack);
      if (isRolledBack ?? (rollsBack && !plan.isReadOnly)) throw new Undone(response);
      return response;
    };
    return asRole(database, caller.claims, work, {
      readOnly: plan.isReadOnly,
      allowsAnyRole,
      request: requestSettings(request, path, parsed),
    });
  }

  async function answer(
    session: Session,
    parsed: ParsedRequest,
    plan: ReadPlan | MutationPlan | CallPlan,
    search: string,
    isRolledBack: boolean | null,
  ): Promise<Response> {
    const statement = writeStatement(plan);
    const { explanation } = plan.media;
    if (explanation) {
      const { sql, parameters } = writeExplanation(statement, explanation);
      const { rows } = await session.query<{ 'QUERY PLAN': unknown }>(sql, parameters);
      const lines = rows.map((row) => row['QUERY PLAN']);
      const isText = explanation.form === 'text';
      return respondDocument(parsed, plan, isText ? lines.join('\n') : JSON.stringify(lines[0]));
    }
    const { rows } = await session.query<Answer>(statement.sql, statement.parameters);
    const [row] = rows;
    if (!row) throw new Error('the statement gave no answer');
    if (plan.kind === 'read') await estimateTotal(session, plan, row);
    checkAnswer(plan, row);
    return respond(parsed, plan, row, search, isRolledBack);
  }

  async function describe(session: Session, parsed: ParsedRequest, plan: DescriptionPlan, url: URL) {
    const { sql, parameters } = writeDescription(plan);
    const { rows } = await session.query<DescribedSchema>(sql, parameters);
    const described = rows[0] ?? { comment: null, relations: [], functions: [] };
    const document = openApiOf(described, schema.cache.relations.get(plan.schema) ?? new Map(), {
      root: new URL(options.openApiAddress ?? new URL(url.pathname, url)),
      tellsSecurity: options.openApiSecurity ?? false,
    });
    return respondDocument(parsed, plan, JSON.stringify(document));
  }

  function requestSettings(request: Request, path: string, parsed: ParsedRequest) {
    const headers = Object.fromEntries(request.headers);
    const cookies = cookiesOf(headers.cookie);
    delete headers.cookie;
    const { timeZone } = parsed.preferences;
    return {
      method: request.method,
      path,
      headers,
      cookies,
      searchPath: [parsed.schema, ...extraSearchPath].map(quoted).join(', '),
      ...(options.appSettings ? { settings: options.appSettings } : {}),
      ...(timeZone ? { timeZone } : {}),
      ...(options.statementTimeout === undefined ? {} : { statementTimeout: options.statementTimeout }),
    };
  }

  /** Null when the client did not say or may not. */
  function rollbackWish({ preferences }: ParsedRequest, plan: { isReadOnly: boolean }) {
    if (!options.allowsRollback || !preferences.transaction || plan.isReadOnly) return null;
    return preferences.transaction === 'rollback';
  }

  return {
    async fetch(request, caller) {
      try {
        return await serve(request, caller);
      } catch (error) {
        if (error instanceof Undone) return error.response;
        const fault = faultOf(error, caller.claims.role === anonymousRole);
        if (fault.status >= 500) onFault(error);
        return respondFault(fault, request.method);
      }
    },
    close: () => schema.close(),
  };
}

/** Thrown to undo a transaction whose response is nevertheless given. */
class Undone extends Error {
  readonly response: Response;
  constructor(response: Response) {
    super('undone on the wish of the client');
    this.response = response;
  }
}

async function estimateTotal(session: Session, plan: ReadPlan, answer: Answer): Promise<void> {
  const isEstimated =
    plan.count === 'estimated' &&
    (plan.exactCountUpTo === Number.POSITIVE_INFINITY || (answer.total ?? 0) > plan.exactCountUpTo);
  if (plan.count !== 'planned' && !isEstimated) return;
  const { sql, parameters } = writeEstimate(plan);
  const { rows } = await session.query<{ 'QUERY PLAN': Array<{ Plan: { 'Plan Rows': number } }> }>(
    sql,
    parameters,
  );
  const estimate = rows[0]?.['QUERY PLAN'][0]?.Plan['Plan Rows'] ?? 0;
  answer.total = Math.max(answer.total ?? 0, estimate);
}

function cookiesOf(header: string | undefined): Record<string, string> {
  const cookies: Record<string, string> = {};
  for (const pair of header?.split(';') ?? []) {
    const equals = pair.indexOf('=');
    if (equals > 0) cookies[pair.slice(0, equals).trim()] = pair.slice(equals + 1).trim();
  }
  return cookies;
}

/** Keeps a schema cache up to date. Requests under way keep the one they began with. */
async function followSchema(
  database: Database,
  schemas: readonly string[],
  onFault: (error: unknown) => void,
): Promise<{ readonly cache: SchemaCache; close(): Promise<void> }> {
  const load = () =>
    database.transaction((session) => loadSchemaCache(session, schemas), {
      readOnly: true,
      settings: { search_path: '' },
    });
  let current: SchemaCache | null = null;
  let isStale = true;
  // Not null, so that a change which is announced before the first load begins is left to that load.
  let loading: Promise<void> | null = Promise.resolve();
  let retry: NodeJS.Timeout | null = null;
  let isClosed = false;
  const reload = async () => {
    try {
      while (isStale) {
        isStale = false;
        current = await load();
      }
    } finally {
      loading = null;
    }
  };
  const onChange = () => {
    isStale = true;
    if (loading || isClosed) return;
    loading = reload().catch((error) => {
      onFault(error);
      if (!isClosed) retry = setTimeout(onChange, retryAfter);
    });
  };
  // Listening comes first: a change during the first load is not missed.
  const stop = await database.listen(
    'pgrst',
    (payload) => {
      if (payload === 'reload schema' || payload === '') onChange();
    },
    onChange,
  );
  try {
    loading = reload();
    await loading;
  } catch (error) {
    isClosed = true;
    await stop();
    throw error;
  }
  return {
    get cache() {
      if (!current) throw new Error('the schema has not been read');
      return current;
    },
    async close() {
      isClosed = true;
      if (retry) clearTimeout(retry);
      await stop();
      await loading;
    },
  };
}
