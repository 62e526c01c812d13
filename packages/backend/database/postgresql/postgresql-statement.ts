// One statement on a server and its settings as one message (PostgreSQL's protocol, "Pipelining"): neither begin nor commit are sent.
// The Sync that follows ends their transaction. It is part of the message, unless the result must be accepted first.
import type { Socket } from 'node:net';
import pg from 'pg';
import { asDatabaseError, type QueryResult, settingsParameters, settingsStatement } from '../database.ts';
import { WireMessages } from '../wire-message.ts';

/** A statement and its values; `name` where connections prepare it once. */
export interface NamedStatement {
  name: string | null;
  text: string;
  values: readonly unknown[];
}

/** Dependencies that statements share with the driver. */
export interface StatementOptions {
  /** The name under which every connection has prepared the settings' statement; null where statements have no names. */
  settingsName: string | null;
  /** Parser of a column's text, by the column's type. */
  parserOf: (type: number) => (text: string) => unknown;
}

type Row = Record<string, unknown>;
type Accept = (result: QueryResult<Row>) => void;
type Callback = (error: unknown, result: QueryResult<Row> | null) => void;
interface Column {
  name: string;
  parse: (text: string) => unknown;
}

/** The used part of the driver's connection, which its types omit. */
interface WireConnection {
  stream: Socket;
  /** Prepared statements, and those sent without an answer yet. */
  parsedStatements: Record<string, string>;
  submittedNamedStatements: Record<string, string>;
}

// A pipelining connection accepts only the driver's own queries. Their constructor's setup is not needed here.
const QueryKind = function Query() {} as unknown as new () => object;
QueryKind.prototype = pg.Query.prototype;

// A prepared statement's columns do not change: the server refuses it then.
const columnsOfConnection = new WeakMap<WireConnection, Map<string, readonly Column[]>>();

/** One statement with its settings. The driver calls its methods as answers arrive. */
export class SingleStatement extends QueryKind {
  /** The name that the driver records as prepared. */
  readonly name: string | null;
  readonly text: string;
  callback: Callback;
  readonly #settings: Readonly<Record<string, string>>;
  readonly #values: readonly unknown[];
  readonly #options: StatementOptions;
  readonly #accept: Accept | null;
  readonly #rows: Row[] = [];
  #columns: readonly Column[] = [];
  #connection: WireConnection | null = null;
  #failure: unknown = null;
  #completed = 0;
  #isSynced = true;

  /**
   * @param settings names of ours and their values, local to the transaction
   * @param accept throws if the result is refused, so that the change is undone. Null: ends the transaction in the same message
   * @param callback receives a DatabaseError or the result
   */
  constructor(
    { name, text, values }: NamedStatement,
    settings: Readonly<Record<string, string>>,
    accept: Accept | null,
    options: StatementOptions,
    callback: Callback,
  ) {
    super();
    this.name = name;
    this.text = text;
    this.callback = callback;
    this.#values = values;
    this.#settings = settings;
    this.#accept = accept;
    this.#options = options;
  }

  submit(driven: pg.Connection): null {
    const { name, text } = this;
    const connection = driven as unknown as WireConnection;
    this.#connection = connection;
    const { parsedStatements, submittedNamedStatements, stream } = connection;
    const { settingsName } = this.#options;
    const messages = new WireMessages();
    if (settingsName === null) messages.parse('', settingsStatement);
    messages.bind(settingsName ?? '', settingsParameters(this.#settings)).execute();
    const isPrepared =
      name !== null && (parsedStatements[name] ?? submittedNamedStatements[name]) !== undefined;
    if (!isPrepared) messages.parse(name ?? '', text);
    messages.bind(name ?? '', this.#values);
    const columns = name === null ? undefined : columnsOfConnection.get(connection)?.get(name);
    if (columns) this.#columns = columns;
    else messages.describePortal();
    messages.execute();
    this.#isSynced = this.#accept === null;
    const message = (this.#isSynced ? messages.sync() : messages.flush()).take();
    if (name !== null && !isPrepared) submittedNamedStatements[name] = text;
    if (stream.writable) stream.write(message);
    return null;
  }

  #end(message: WireMessages): void {
    this.#isSynced = true;
    const stream = this.#connection?.stream;
    if (stream?.writable) stream.write(message.take());
  }

  handleRowDescription({ fields }: { fields: readonly { name: string; dataTypeID: number }[] }): void {
    this.#columns = fields.map((field) => ({
      name: field.name,
      parse: this.#options.parserOf(field.dataTypeID),
    }));
    if (this.name === null || !this.#connection) return;
    const statements = columnsOfConnection.get(this.#connection) ?? new Map<string, readonly Column[]>();
    statements.set(this.name, this.#columns);
    columnsOfConnection.set(this.#connection, statements);
  }

  // The settings return no rows, so all rows are the statement's.
  handleDataRow({ fields }: { fields: readonly (string | null)[] }): void {
    if (this.#failure) return;
    try {
      const row: Row = {};
      for (let at = 0; at < this.#columns.length; at += 1) {
        const column = this.#columns[at];
        const text = fields[at];
        if (column) row[column.name] = text === null || text === undefined ? null : column.parse(text);
      }
      this.#rows.push(row);
    } catch (error) {
      this.#failure = asDatabaseError(error);
    }
  }

  handleCommandComplete(): void {
    this.#completed += 1;
    // The first command is that of the settings.
    if (this.#isSynced || this.#completed < 2) return;
    try {
      if (!this.#failure) this.#accept?.(this.#result());
    } catch (error) {
      this.#failure = error;
    }
    this.#end(this.#failure ? new WireMessages().query('rollback') : new WireMessages().sync());
  }

  handleError(error: Error): void {
    if (!this.#isSynced) this.#end(new WireMessages().sync());
    this.callback(asDatabaseError(error), null);
  }

  handleReadyForQuery(): void {
    if (this.#failure) this.callback(this.#failure, null);
    else this.callback(null, this.#result());
  }

  #result(): QueryResult<Row> {
    return { rows: this.#rows, rowCount: this.#rows.length };
  }
}
