// The interface of PGlite and PostgreSQL. All SQL runs through it.
import { arrayLiteral } from './array-literal.ts';

/** A statement's result: its rows, and the number of affected rows. */
export interface QueryResult<Row> {
  rows: Row[];
  rowCount: number;
}

/**
 * Something statements can be sent to: the database itself (each statement its own transaction) or one open transaction.
 *
 * Both drivers return the same values: int8 as number, numeric, dates and timestamps as the text PostgreSQL
 * prints, json and jsonb parsed. Parameters are sent as text and typed by the server.
 */
export interface Session {
  /**
   * Runs one statement.
   * @param sql one SQL statement with `$1`, `$2` … placeholders
   * @param parameters their values; strings, numbers, booleans, null, or objects (sent as JSON)
   * @throws DatabaseError with PostgreSQL's own SQLSTATE, message, detail and hint
   */
  query<Row = Record<string, unknown>>(
    sql: string,
    parameters?: readonly unknown[],
  ): Promise<QueryResult<Row>>;

  /** Runs a script of several statements (migrations, seeds); outside a transaction they run in a new one. */
  execute(script: string): Promise<void>;
}

/** Isolation level of a transaction. */
export type Isolation = 'read committed' | 'repeatable read' | 'serializable';

/** Options of a transaction. `settings` are local to it, set in one parameterised statement. */
export interface TransactionOptions {
  readOnly?: boolean;
  /** Default: the database's own. */
  isolation?: Isolation;
  settings?: Readonly<Record<string, string>>;
}

/** Receives a notification's payload ('' without one). */
export type NotificationListener = (payload: string) => void;

/** An advisory lock, named by two numbers from 0 to 2³¹ - 1. */
export interface AdvisoryLock {
  group: number;
  value: number;
}

export interface Database extends Session {
  readonly kind: 'pglite' | 'postgresql';

  /**
   * Runs `work` in one transaction; commits when it resolves, rolls back and rethrows when it rejects.
   * On PGlite transactions run one after another: never use the database itself inside `work`, only its session.
   */
  transaction<T>(work: (session: Session) => Promise<T>, options?: TransactionOptions): Promise<T>;

  /**
   * Runs one statement in a read-only transaction of its own, under settings that are local to it. On a server all of it
   * is one message there and one back.
   * @param settings names of ours, never from a request, and their values
   * @param isShort whether other reads may wait for this one. Default: false
   * @throws DatabaseError
   */
  read<Row = Record<string, unknown>>(
    sql: string,
    parameters: readonly unknown[],
    settings: Readonly<Record<string, string>>,
    isShort?: boolean,
  ): Promise<QueryResult<Row>>;

  /**
   * Runs one statement in a transaction of its own, like `read`, but one that may write.
   * @param accept receives the result before the commit, which on a server is a second message then. If it throws, the transaction is
   *   rolled back and the error is thrown. Null: commits in the same message, so that no lock waits for this process
   * @throws DatabaseError; what `accept` throws
   */
  write<Row = Record<string, unknown>>(
    sql: string,
    parameters: readonly unknown[],
    settings: Readonly<Record<string, string>>,
    accept: ((result: QueryResult<Row>) => void) | null,
  ): Promise<QueryResult<Row>>;

  /**
   * Calls `listener` for every NOTIFY on `channel`, from any process.
   * `onReconnected` is called after a reconnection: notifications may have been missed.
   * `onLost` is called when the connection is lost: until `onReconnected`, no notifications arrive.
   * @returns a function that ends the subscription
   */
  listen(
    channel: string,
    listener: NotificationListener,
    onReconnected?: () => void,
    onLost?: () => void,
  ): Promise<() => Promise<void>>;

  /**
   * Holds shared advisory locks for as long as this database is open, also after the connection was lost and made again. Absent where
   * only one process can open the database.
   * @returns the advisory locks of two numbers that other connections to this database hold
   */
  shareLocks?(locks: readonly AdvisoryLock[]): Promise<(AdvisoryLock & { holder: number })[]>;

  /** Connections of the pool by state, and waiting callers. Absent without a pool. */
  connections?(): { busy: number; idle: number; waiting: number };

  close(): Promise<void>;
}

/** An error of the database, with PostgreSQL's fields. */
export class DatabaseError extends Error {
  override readonly name = 'DatabaseError';
  /** SQLSTATE, five characters; '08006' when the connection itself was lost. */
  readonly code: string;
  readonly detail: string | null;
  readonly hint: string | null;
  readonly constraint: string | null;
  /** Whether the error ended the connection, as PostgreSQL and poolers report it. */
  readonly isFatal: boolean;

  constructor(
    message: string,
    fields: {
      code: string;
      detail?: string | null;
      hint?: string | null;
      constraint?: string | null;
      severity?: string | null;
      cause?: unknown;
    },
  ) {
    super(message, { cause: fields.cause });
    this.code = fields.code;
    this.isFatal = fields.severity === 'FATAL' || fields.severity === 'PANIC';
    this.detail = fields.detail ?? null;
    this.hint = fields.hint ?? null;
    this.constraint = fields.constraint ?? null;
  }
}

/**
 * Whether the database cannot be used at the moment: it starts, stops, has no free connection or cannot be reached, itself or
 * behind a pooler. The request is not to blame, and succeeds later.
 */
export function isUnavailable(error: unknown): error is DatabaseError {
  return error instanceof DatabaseError && (error.isFatal || /^(?:08|57P0[1235]$|53300$)/.test(error.code));
}

/** Seconds after which a client may try again when the database is unavailable. */
export const retryAfterSeconds = '5';

/** The database was written by another version of the software. The message is a sentence without its full stop. */
export class OtherVersion extends Error {
  override readonly name = 'OtherVersion';
  readonly isNewer: boolean;

  constructor(message: string, isNewer: boolean) {
    super(message);
    this.isNewer = isNewer;
  }
}

/**
 * Converts a driver's error to a DatabaseError.
 * @param thrown the driver's error; a DatabaseError passes through
 * @returns a DatabaseError; connection errors without SQLSTATE become 08006
 */
export function asDatabaseError(thrown: unknown): DatabaseError {
  if (thrown instanceof DatabaseError) return thrown;
  const error = thrown as Partial<
    Record<'message' | 'code' | 'detail' | 'hint' | 'constraint' | 'severity' | 'syscall', string>
  >;
  // An error of the operating system has a code of letters, such as EPIPE.
  const isSqlState =
    typeof error?.code === 'string' && /^[0-9A-Z]{5}$/.test(error.code) && error.syscall === undefined;
  return new DatabaseError(error?.message ?? String(thrown), {
    code: isSqlState && error.code ? error.code : '08006',
    detail: error?.detail ?? null,
    hint: error?.hint ?? null,
    constraint: error?.constraint ?? null,
    severity: error?.severity ?? null,
    cause: thrown,
  });
}

/**
 * The statement that sets any number of settings for the current transaction, with a constant text. It returns no rows.
 */
export const settingsStatement =
  'select from unnest($1::text[], $2::text[]) as setting (name, value) where set_config(name, value, true) is null';

/**
 * The parameters of `settingsStatement`.
 * @param settings setting names (constants of ours, never from a request) and values; they are set in their order
 */
export function settingsParameters(settings: Readonly<Record<string, string>>): [string, string] {
  return [arrayLiteral(Object.keys(settings)), arrayLiteral(Object.values(settings))];
}
