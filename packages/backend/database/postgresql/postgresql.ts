// The PostgreSQL driver: a pool for statements and transactions, one lasting connection for notifications.
import type { Socket } from 'node:net';
import pg from 'pg';
import {
  type AdvisoryLock,
  asDatabaseError,
  type Database,
  isUnavailable,
  type NotificationListener,
  type QueryResult,
  type Session,
  settingsParameters,
  settingsStatement,
  type TransactionOptions,
} from '../database.ts';
import { StatementNames } from '../statement-names.ts';
import { SingleStatement } from './postgresql-statement.ts';
import { createSender } from './send-statements.ts';

const int8 = 20;
const textTypes = new Set([1082, 1083, 1114, 1184, 1186, 1266, 1700]);

const types = {
  getTypeParser(oid: number, format?: 'text' | 'binary') {
    if (oid === int8) return Number;
    if (textTypes.has(oid)) return (value: string) => value;
    return format === 'binary' ? pg.types.getTypeParser(oid, 'binary') : pg.types.getTypeParser(oid, 'text');
  },
} as pg.CustomTypesConfig;

/** Settings of the PostgreSQL driver. */
export interface PostgresqlOptions {
  /** Connections of the pool. Default: 16, one for each job that the fair queues run at a time. */
  poolSize?: number;
  /** Milliseconds a caller waits for a connection. Default: 10,000. */
  poolTimeout?: number;
  /** Milliseconds between two health checks of the connection for notifications. Default: 2,000. */
  notificationCheck?: number;
  /**
   * Direct connection string for notifications, where `url` uses a pooler in transaction mode. Such a pooler passes no
   * notifications on. Default: `url`.
   */
  listenUrl?: string | undefined;
  /**
   * Whether statements are prepared by name. A pooler in transaction mode may use another connection for every transaction, on
   * which the name is unknown or taken. Default: true without `listenUrl`.
   */
  namesStatements?: boolean;
  /** Receives errors that no caller waits for, such as an idle connection that broke. */
  onError?: (error: Error) => void;
}

/**
 * Opens a PostgreSQL database.
 * @param url a postgres:// connection string; its role must own the application's schema and be a member of the request roles
 * @returns the database; connections are opened when first needed
 */
export function openPostgresql(url: string, options: PostgresqlOptions = {}): Database {
  const onError = options.onError ?? (() => {});
  const { namesStatements = options.listenUrl === undefined } = options;
  const names = namesStatements ? statementNames : null;
  const pool = new pg.Pool({
    connectionString: url,
    max: options.poolSize ?? 16,
    pipeline: true,
    types,
    connectionTimeoutMillis: options.poolTimeout ?? 10_000,
    application_name: 'backend',
  });
  pool.on('error', onError);
  // The pool handles errors of idle connections only. While a connection is in use, its failed query reports the error; an
  // unhandled event would end the process.
  pool.on('connect', (client) => {
    client.on('error', () => {});
    // Prepared by name from here on. A connection that cannot do this fails its next query.
    if (names) client.query(settingsQuery({}, names)).catch(() => {});
  });
  const sendStatement = createSender(pool, names !== null);
  const statementOptions = { settingsName: names ? settingsName : null, parserOf };
  const runSingle = <Row>(
    sql: string,
    parameters: readonly unknown[],
    settings: Readonly<Record<string, string>>,
    accept: ((result: QueryResult<Row>) => void) | null,
    isShort: boolean,
  ): Promise<QueryResult<Row>> =>
    new Promise((resolve, reject) => {
      const single = new SingleStatement(
        { name: names?.of(sql) ?? null, text: sql, values: parameters },
        settings,
        accept as ((result: QueryResult<Record<string, unknown>>) => void) | null,
        statementOptions,
        (error, result) => {
          if (result) resolve(result as QueryResult<Row>);
          else reject(error);
        },
      );
      sendStatement(single, isShort);
    });
  const notifications = new NotificationConnection(
    options.listenUrl ?? url,
    options.notificationCheck ?? 2000,
    onError,
  );

  return {
    kind: 'postgresql',
    async query<Row>(sql: string, parameters?: readonly unknown[]) {
      const client = await pool.connect().catch(rethrow);
      try {
        return await send<Row>(client, names, sql, parameters);
      } finally {
        client.release();
      }
    },
    read: (sql, parameters, settings, isShort = false) =>
      runSingle(sql, parameters, { ...settings, transaction_read_only: 'on' }, null, isShort),
    write: (sql, parameters, settings, accept) => runSingle(sql, parameters, settings, accept, false),
    async transaction<T>(work: (session: Session) => Promise<T>, transaction: TransactionOptions = {}) {
      const client = await pool.connect().catch(rethrow);
      try {
        const { result, ended } = await inTransaction(client, names, work, transaction);
        if (transaction.readOnly) {
          // The result is valid whether or not the end is acknowledged: only the pool waits for it.
          ended.then(
            () => client.release(),
            () => client.release(true),
          );
        } else {
          await ended;
          client.release();
        }
        return result;
      } catch (error) {
        // A connection that broke in the middle must not go back to the pool.
        client.release(error instanceof RollbackFailed || isUnavailable(error));
        throw error instanceof RollbackFailed ? error.reason : error;
      }
    },
    async execute(script: string) {
      await pool.query(script).catch(rethrow);
    },
    shareLocks: (locks) => notifications.shareLocks(locks),
    connections: () => ({
      busy: pool.totalCount - pool.idleCount,
      idle: pool.idleCount,
      waiting: pool.waitingCount,
    }),
    listen: (channel, listener, onReconnected, onLost) =>
      notifications.listen(channel, listener, onReconnected, onLost),
    async close() {
      await notifications.close();
      // Connections end a moment after the pool has: what breaks them then, such as the end of the server, is no news.
      pool.off('error', onError).on('error', () => {});
      await pool.end();
    },
  };
}

async function inTransaction<T>(
  client: pg.PoolClient,
  names: StatementNames | null,
  work: (session: Session) => Promise<T>,
  { readOnly, isolation, settings }: TransactionOptions,
): Promise<{ result: T; ended: Promise<unknown> }> {
  // The connection pipelines: opening, settings and the first statement of `work` share one network round trip.
  // Their failures surface where `work` awaits its own statement, or here below.
  writeAtOnce(client);
  const opening: Promise<unknown>[] = [
    client.query(`begin${isolation ? ` isolation level ${isolation}` : ''}${readOnly ? ' read only' : ''}`),
  ];
  if (settings) opening.push(client.query(settingsQuery(settings, names)));
  const opened = Promise.all(opening).catch(rethrow);
  opened.catch(() => {});
  try {
    const result = await work({
      query: (sql, parameters) => send(client, names, sql, parameters),
      execute: async (script) => void (await client.query(script).catch(rethrow)),
    });
    await opened;
    return { result, ended: client.query('commit').catch(rethrow) };
  } catch (error) {
    try {
      await client.query('rollback');
    } catch {
      throw new RollbackFailed(error);
    }
    // A failed opening (an unknown role, for example) explains the failures that follow from it.
    await opened;
    throw error;
  }
}

const settingsName = 'settings';

function settingsQuery(
  settings: Readonly<Record<string, string>>,
  names: StatementNames | null,
): pg.QueryConfig {
  const query = { text: settingsStatement, values: settingsParameters(settings) };
  return names ? { name: settingsName, ...query } : query;
}

const parserOf = (type: number) => types.getTypeParser(type, 'text') as (text: string) => unknown;

/** Combines the messages of one turn of the event loop into one write. */
function writeAtOnce(client: pg.PoolClient): void {
  const { stream } = (client as unknown as { connection: { stream: Socket } }).connection;
  stream.cork();
  process.nextTick(() => stream.uncork());
}

const statementNames = new StatementNames();

function prepared(
  names: StatementNames | null,
  sql: string,
  parameters: readonly unknown[] = [],
): pg.QueryConfig {
  const values = parameters as unknown[];
  const name = names?.of(sql);
  return name ? { name, text: sql, values } : { text: sql, values };
}

class RollbackFailed extends Error {
  readonly reason: unknown;
  constructor(reason: unknown) {
    super('the transaction could not be rolled back');
    this.reason = reason;
  }
}

async function send<Row>(
  client: pg.PoolClient,
  names: StatementNames | null,
  sql: string,
  parameters?: readonly unknown[],
): Promise<QueryResult<Row>> {
  const result = await client.query(prepared(names, sql, parameters)).catch(rethrow);
  return { rows: result.rows as Row[], rowCount: result.rowCount ?? 0 };
}

function rethrow(error: unknown): never {
  throw asDatabaseError(error);
}

async function takeLocks(client: pg.Client, locks: readonly AdvisoryLock[]): Promise<void> {
  if (locks.length === 0) return;
  await client.query(
    'select pg_advisory_lock_shared(taken.a, taken.b) from unnest($1::integer[], $2::integer[]) as taken (a, b)',
    [locks.map(({ group }) => group), locks.map(({ value }) => value)],
  );
}

interface Subscription {
  channel: string;
  listener: NotificationListener;
  onReconnected: (() => void) | undefined;
  onLost: (() => void) | undefined;
}

/** One connection that LISTENs to all channels and reconnects. */
class NotificationConnection {
  readonly #url: string;
  readonly #checkEveryMs: number;
  readonly #onError: (error: Error) => void;
  readonly #subscriptions = new Set<Subscription>();
  #locks: readonly AdvisoryLock[] = [];
  #client: Promise<pg.Client> | null = null;
  #retry: NodeJS.Timeout | null = null;
  #isClosed = false;

  constructor(url: string, checkEveryMs: number, onError: (error: Error) => void) {
    this.#url = url;
    this.#checkEveryMs = checkEveryMs;
    this.#onError = onError;
  }

  async listen(
    channel: string,
    listener: NotificationListener,
    onReconnected?: () => void,
    onLost?: () => void,
  ) {
    const subscription: Subscription = { channel, listener, onReconnected, onLost };
    this.#subscriptions.add(subscription);
    const client = await this.#connected();
    await client.query(`listen ${pg.escapeIdentifier(channel)}`);
    return async () => {
      this.#subscriptions.delete(subscription);
      const isStillUsed = [...this.#subscriptions].some((other) => other.channel === channel);
      if (!isStillUsed && this.#client && !this.#isClosed) {
        await (await this.#client).query(`unlisten ${pg.escapeIdentifier(channel)}`).catch(this.#onError);
      }
    };
  }

  async shareLocks(locks: readonly AdvisoryLock[]) {
    this.#locks = locks;
    const client = await this.#connected();
    await takeLocks(client, locks).catch(rethrow);
    const { rows } = await client
      .query<AdvisoryLock & { holder: number }>(
        `select classid::integer as group, objid::integer as value, pid as holder from pg_locks
         where locktype = 'advisory' and objsubid = 2 and granted and pid <> pg_backend_pid()
           and database = (select oid from pg_database where datname = current_database())
           and classid::bigint < 2147483648 and objid::bigint < 2147483648`,
      )
      .catch(rethrow);
    return rows;
  }

  async close() {
    this.#isClosed = true;
    if (this.#retry) clearTimeout(this.#retry);
    const client = await this.#client?.catch(() => null);
    await client?.end().catch(this.#onError);
  }

  #connected(): Promise<pg.Client> {
    this.#client ??= this.#connect();
    return this.#client;
  }

  async #connect(): Promise<pg.Client> {
    const client = new pg.Client({
      connectionString: this.#url,
      // Several listeners may subscribe concurrently.
      pipeline: true,
      keepAlive: true,
      application_name: 'backend notifications',
    });
    let isLost = false;
    let check: NodeJS.Timeout | undefined;
    const onLost = (error?: Error) => {
      clearInterval(check);
      if (isLost || this.#isClosed) return;
      isLost = true;
      if (error) this.#onError(error);
      this.#client = null;
      for (const subscription of this.#subscriptions) subscription.onLost?.();
      this.#reconnectSoon(200);
    };
    client.on('notification', (message) => {
      for (const subscription of this.#subscriptions) {
        if (subscription.channel === message.channel) subscription.listener(message.payload ?? '');
      }
    });
    client.on('error', onLost);
    client.on('end', () => onLost());
    try {
      await client.connect();
      await takeLocks(client, this.#locks);
    } catch (error) {
      onLost();
      throw asDatabaseError(error);
    }
    // A connection that only listens does not detect a lost peer (a network that dropped its state, a server without power).
    // Counts unanswered queries instead of time, because this process may have been paused itself.
    let unanswered = 0;
    check = setInterval(() => {
      if (unanswered >= 2) {
        onLost(new Error('the notification connection does not respond'));
        // Destroyed without a Terminate message, which no one would receive.
        (client as unknown as { connection: { stream: Socket } }).connection.stream.destroy();
        return;
      }
      unanswered += 1;
      client.query('select').then(
        () => {
          unanswered = 0;
        },
        () => {},
      );
    }, this.#checkEveryMs);
    check.unref();
    return client;
  }

  #reconnectSoon(delayMs: number) {
    if (this.#retry || this.#isClosed) return;
    this.#retry = setTimeout(async () => {
      this.#retry = null;
      try {
        const client = await this.#connected();
        const channels = new Set([...this.#subscriptions].map(({ channel }) => channel));
        for (const channel of channels) await client.query(`listen ${pg.escapeIdentifier(channel)}`);
        for (const { onReconnected } of this.#subscriptions) onReconnected?.();
      } catch {
        this.#client = null;
        this.#reconnectSoon(Math.min(delayMs * 2, 10_000));
      }
    }, delayMs);
  }
}
