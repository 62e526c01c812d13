// The table-query service: parse, plan, write, run, respond.

import { type Caller, inShareOf, type Service } from '../caller.ts';
import { asRole, readAsRole, requestRoles, writeAsRole } from '../database/as-role.ts';
import type { Database, Session } from '../database/database.ts';
import { addressOf, PlainRequest } from '../http/plain-request.ts';
import { PlainResponse } from '../http/plain-response.ts';
import { isQueueRejection } from '../limits/fair-queue.ts';
import { type ParsedRequest, parseRequest } from './parse/parse.ts';
import { checkNesting, readBody } from './parse/payload.ts';
import { checkSize, checkUrlLength, type SizeLimits } from './parse/request-size.ts';
import { planRequest } from './plan/plan.ts';
import { PlanCache, shapeOf } from './plan/plan-cache.ts';
import type { DescriptionPlan, PlanLimits } from './plan/plan-types.ts';
import { DataError } from './respond/data-error.ts';
import { respondDocument, respondOptions } from './respond/respond.ts';
import { dataErrorOf, respondError } from './respond/respond-error.ts';
import { isCheckedFirst, isOneStatement, runDescription, runOneStatement, runPlan } from './run/run.ts';
import { ServerTiming } from './run/server-timing.ts';
import { firstRowsOf, isStreamable } from './run/stream-rows.ts';
import { createTransactionSettings } from './run/transaction-settings.ts';
import { DescriptionCache } from './schema/description-cache.ts';
import { followSchema } from './schema/follow-schema.ts';
import { openApiOf } from './schema/openapi.ts';
import type { SchemaCache } from './schema/schema-types.ts';
import type { DescribedSchema } from './schema/sql-description.ts';
import { type Answer, writeStatement } from './sql/sql.ts';
import { nameOf, type Statement } from './sql/sql-writer.ts';

/** Settings of the service. */
export interface DataServiceOptions {
  database: Database;
  /** Exposed schemas; the first is the default of requests. */
  schemas: readonly string[];
  /** Bounds of one request and its answer. Default: a body of 1 MiB, 50 embeds, 500 filters, 1000 rows, and nothing else. */
  limits?: Partial<SizeLimits>;
  /** Bounds of a role's requests that differ from `limits`, by role. */
  roleLimits?: Readonly<Record<string, Partial<SizeLimits>>>;
  /** Maximum nesting of embeds. Default: 10. */
  maxEmbedDepth?: number;
  /** Whether embedding many rows may lead back to a relation above them. Default: true. */
  allowsCircles?: boolean;
  /** Milliseconds after which PostgreSQL cancels a statement. Default: its own. PGlite cannot cancel. */
  statementTimeout?: number;
  /** Whether a client may have its transaction undone with `Prefer: tx=rollback`. Default: false. */
  allowsRollback?: boolean;
  /** Whether transactions are rolled back unless the client may and does request otherwise. Default: false. */
  rollsBack?: boolean;
  /** Role for requests without a token. Default: `anon`. */
  anonymousRole?: string;
  /** Whether a verified token may name any role of the database. Default: only the platform's roles. */
  allowsAnyRole?: boolean;
  /** Schemas searched after the request's own. Default: `extensions`. */
  extraSearchPath?: readonly string[];
  /** A function called, in the request's role, before every request's own work: its schema ('' for the search path) and name. */
  preRequest?: { schema: string; name: string };
  /** Whether clients may aggregate. Default: false. */
  allowsAggregates?: boolean;
  /** Whether clients may see execution plans. Default: false. */
  allowsPlan?: boolean;
  /** Content of the description at the root: objects that the caller may use, all, or none. Default: those that the caller may use. */
  openApiMode?: PlanLimits['openApiMode'];
  /**
   * Whether descriptions are cached for as long as the schema does not change; only where the database announces every change of
   * privileges and comments, too. Default: false.
   */
  cachesDescriptions?: boolean;
  /** Whether the description declares that tokens are sent. Default: false. */
  openApiSecurity?: boolean;
  /** The service's URL in the description. Default: that of the request. */
  openApiAddress?: string;
  /** A function of the request's schema that answers at the root in place of the description. */
  rootFunction?: string;
  /** Settings of a called function that hold for the whole transaction. Default: PostgREST's list. */
  hoistedSettings?: readonly string[];
  /** Whether responses have a Server-Timing header with the duration of each stage. Default: false. */
  showsTiming?: boolean;
  /** Settings SQL may read, as `app.settings.…`. */
  appSettings?: Readonly<Record<string, string>>;
  /** The channel on which the database announces that its schema changed; null for none. Default: `pgrst`. */
  schemaChannel?: string | null;
  /** Receives errors that are not the client's, and failed schema reloads. */
  onError?: (error: unknown, request?: Pick<PlainRequest, 'headers'>) => void;
}

const root = '/rest/v1';

/** Cost of a read up to which other reads may wait for it: a few conditions, and no search. */
const shortCost = 3;

const defaultLimits: SizeLimits = {
  maxUrlLength: Number.POSITIVE_INFINITY,
  maxBodyBytes: 1024 * 1024,
  maxKeys: Number.POSITIVE_INFINITY,
  maxInsertedRows: Number.POSITIVE_INFINITY,
  maxSelected: Number.POSITIVE_INFINITY,
  maxEmbeds: 50,
  maxFilters: 500,
  maxListMembers: Number.POSITIVE_INFINITY,
  maxOrders: Number.POSITIVE_INFINITY,
  maxOffset: Number.POSITIVE_INFINITY,
  maxSearchLength: Number.POSITIVE_INFINITY,
  maxSearchWords: Number.POSITIVE_INFINITY,
  maxPatternStates: Number.POSITIVE_INFINITY,
  maxRows: 1000,
  maxAnswerBytes: Number.POSITIVE_INFINITY,
  allowsRepeats: true,
};

/**
 * Creates the service for the paths below `/rest/v1`.
 * @returns the service and its schema cache, which reloads on `notify pgrst, 'reload schema'` until it is closed
 * @throws DatabaseError when the schema cannot be read
 */
export async function createDataService(
  options: DataServiceOptions,
): Promise<Required<Service> & { readonly schemaCache: SchemaCache; close(): Promise<void> }> {
  const { database, schemas, onError = () => {} } = options;
  const planLimits = {
    maxEmbedDepth: options.maxEmbedDepth ?? 10,
    allowsCircles: options.allowsCircles ?? true,
    allowsAggregates: options.allowsAggregates ?? false,
    allowsPlan: options.allowsPlan ?? false,
    openApiMode: options.openApiMode ?? 'follow-privileges',
  };
  const context = { schemas, rootFunction: options.rootFunction ?? null };
  const { anonymousRole = 'anon', allowsAnyRole = false, rollsBack = false, preRequest } = options;
  const callBefore = preRequest && `select ${nameOf(preRequest)}()`;
  const settingsOf = createTransactionSettings(options);
  // Plans are cached per role, because limits differ.
  const boundsOf = (ofRole: Partial<SizeLimits> = {}) => {
    const sizes: SizeLimits = { ...defaultLimits, ...options.limits, ...ofRole };
    return { sizes, limits: { ...planLimits, ...sizes }, plans: new PlanCache() };
  };
  const shared = boundsOf();
  const byRole = new Map(
    Object.entries(options.roleLimits ?? {}).map(([role, ofRole]) => [role, boundsOf(ofRole)]),
  );
  const descriptions = options.cachesDescriptions && !callBefore ? new DescriptionCache() : null;
  const searched = options.extraSearchPath ?? ['extensions'];
  const schema = await followSchema(database, schemas, onError, options.schemaChannel, searched);

  async function serve(request: Request | PlainRequest, caller: Caller): Promise<Response | PlainResponse> {
    const timing = options.showsTiming ? new ServerTiming() : null;
    if (!allowsAnyRole && !requestRoles.has(caller.claims.role)) {
      throw new DataError(401, { code: '22023', message: `role "${caller.claims.role}" does not exist` });
    }
    const address = addressOf(request);
    const path = address.pathname.startsWith(root) ? address.pathname.slice(root.length) : address.pathname;
    const search = address.search.slice(1);
    const { cache } = schema;
    const { sizes, limits, plans } = byRole.get(caller.claims.role) ?? shared;
    checkUrlLength(path.length + search.length, sizes);
    const body = request instanceof PlainRequest ? '' : await readBody(request, sizes.maxBodyBytes);
    checkNesting(body, request.headers.get('content-type'));
    const answerParsed = async (addCost: (cost: number) => void): Promise<Response | PlainResponse> => {
      const parts = { method: request.method, path, search, headers: request.headers, body };
      const shape = shapeOf(parts);
      const planned = plans.find(shape.key, cache);
      const parsed = planned?.parsed ?? parseRequest(shape.parts, context);
      timing?.lap('parse');
      const cost = planned?.cost ?? checkSize(parsed, sizes);
      const plan = planned?.plan ?? planRequest(parsed, cache, limits);
      if (plan.kind === 'options') {
        timing?.lap('plan');
        const response = respondOptions(plan);
        timing?.writeTo(response);
        return response;
      }
      addCost(cost);
      const isRolledBack = wantsRollback(parsed);
      const isUndone = !plan.isReadOnly && (isRolledBack ?? rollsBack);
      // The embedded database has one session: no client may hold it while a response is sent.
      const mayStream = database.kind === 'postgresql' && plan.kind === 'read' && isStreamable(plan);
      const ofRole = cache.roleSettings.get(caller.claims.role) ?? null;
      const settings = { allowsAnyRole, ...settingsOf(request, path, parsed, plan, ofRole) };
      let answer: (session: Session, deliver: Deliver | null) => Promise<Response | PlainResponse>;
      if (plan.kind === 'description') {
        const url = new URL(request.url);
        const describeWith = (session: Session | null) =>
          describe(session, parsed, plan, cache, caller.claims.role, url);
        if (descriptions?.has(caller.claims.role, plan.schema, cache)) return describeWith(null);
        answer = describeWith;
      } else {
        const statement =
          planned?.statement ?? writeStatement(plan.kind === 'read' && mayStream ? firstRowsOf(plan) : plan);
        if (!planned && plan.kind !== 'mutation') {
          plans.store(shape.key, cache, { parsed, plan, statement, cost });
        }
        const isShort = plan.kind === 'read' && cost <= shortCost;
        if (isOneStatement(plan) && !callBefore && !settings.isolation && !isUndone) {
          const run = async (filled: Statement, check: (result: { rows: Answer[] }) => void) => {
            if (plan.kind !== 'read' && !plan.isReadOnly && isCheckedFirst(plan)) {
              return writeAsRole<Answer>(database, caller.claims, filled, check, settings);
            }
            const result = plan.isReadOnly
              ? await readAsRole<Answer>(database, caller.claims, filled, { ...settings, isShort })
              : await writeAsRole<Answer>(database, caller.claims, filled, null, settings);
            check(result);
            return result;
          };
          const options = { search, isRolledBack, isFirstPart: mayStream };
          timing?.lap('plan');
          const response = await runOneStatement(run, parsed, plan, shape.fill(statement), options);
          if (response) return timed(response, timing);
          timing?.lap('transaction');
        }
        const options = { search, isRolledBack, fill: shape.fill };
        answer = (session, deliver) => runPlan(session, parsed, plan, statement, { ...options, deliver });
      }
      timing?.lap('plan');
      const work = (deliver: Deliver | null) => async (session: Session) => {
        if (callBefore) await session.query(callBefore);
        const response = await answer(session, deliver);
        if (isUndone) {
          // Reports violations of deferred constraints, as a commit would.
          await session.query('set constraints all immediate');
          throw new RolledBack(response);
        }
        return response;
      };
      const inTransaction = (deliver: Deliver | null) =>
        asRole(database, caller.claims, work(deliver), {
          readOnly: plan.isReadOnly,
          ...settings,
        });
      const response = await (mayStream ? delivered(inTransaction) : inTransaction(null)).catch(
        responseOfRollback,
      );
      return timed(response, timing);
    };
    // Parsing a long request takes longer than serving many short ones.
    return inShareOf(caller, 'work', (body.length + search.length) / 4000, answerParsed);
  }

  async function describe(
    session: Session | null,
    parsed: ParsedRequest,
    plan: DescriptionPlan,
    cache: SchemaCache,
    role: string,
    url: URL,
  ): Promise<PlainResponse> {
    const serviceRoot = new URL(options.openApiAddress ?? new URL(url.pathname, url));
    const read = () => {
      if (!session) throw new Error('the description is not cached');
      return runDescription(session, plan);
    };
    const write = (described: DescribedSchema) =>
      JSON.stringify(
        openApiOf(described, cache.relations.get(plan.schema) ?? new Map(), {
          root: serviceRoot,
          describesSecurity: options.openApiSecurity ?? false,
        }),
      );
    const text = descriptions
      ? await descriptions.document(
          { role, schemaName: plan.schema, schema: cache, root: serviceRoot },
          read,
          write,
        )
      : write(await read());
    return respondDocument(parsed, plan, text);
  }

  /** Null without a permitted preference. */
  function wantsRollback({ preferences }: ParsedRequest) {
    if (!options.allowsRollback || !preferences.transaction) return null;
    return preferences.transaction === 'rollback';
  }

  async function answer(request: Request | PlainRequest, caller: Caller): Promise<Response | PlainResponse> {
    try {
      return await serve(request, caller);
    } catch (error) {
      if (isQueueRejection(error)) throw error;
      const answered = dataErrorOf(error, caller.claims.role === anonymousRole);
      if (answered.status >= 500) onError(error, request);
      return respondError(answered, request.method);
    }
  }

  return {
    policy: { badToken: 'refused' },
    answer,
    async fetch(request, caller) {
      const answered = await answer(request, caller);
      return answered instanceof PlainResponse ? answered.toResponse() : answered;
    },
    get schemaCache() {
      return schema.cache;
    },
    close: () => schema.close(),
  };
}

function timed<R extends Response | PlainResponse>(response: R, timing: ServerTiming | null): R {
  if (timing) {
    timing.lap('transaction');
    // Little work: the response is created within the transaction, which it may roll back.
    timing.lap('response');
    timing.writeTo(response);
  }
  return response;
}

/** Thrown to roll back a transaction whose response is still sent. */
class RolledBack extends Error {
  readonly response: Response | PlainResponse;
  constructor(response: Response | PlainResponse) {
    super('rolled back');
    this.response = response;
  }
}

type Deliver = (response: Response | PlainResponse) => void;

/** Returns the response as soon as it is delivered, possibly before its transaction has ended. */
function delivered(
  run: (deliver: Deliver) => Promise<Response | PlainResponse>,
): Promise<Response | PlainResponse> {
  return new Promise((resolve, reject) => {
    run(resolve).then(resolve, reject);
  });
}

function responseOfRollback(thrown: unknown): Response | PlainResponse {
  if (thrown instanceof RolledBack) return thrown.response;
  throw thrown;
}
