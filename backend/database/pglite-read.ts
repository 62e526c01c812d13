// One read of the embedded database as one message: its settings and its statement precede the same Sync, which ends
// their transaction (PostgreSQL's protocol, "Pipelining"). Five calls into WebAssembly become one.
import { messages, type PGlite, parse, protocol } from '@electric-sql/pglite';
import { type QueryResult, settingsParameters, settingsStatement } from './database.ts';
import { StatementNames } from './statement-names.ts';

const { serialize } = protocol;
const { DatabaseError } = messages;
const settingsName = 'settings';
const execute = serialize.execute();
const describePortal = serialize.describe({ type: 'P' });
const sync = serialize.sync();

/** Prepared statements last as long as the database is open. */
export type Read = <Row>(
  sql: string,
  parameters: readonly unknown[],
  settings: Readonly<Record<string, string>>,
) => Promise<QueryResult<Row>>;

/**
 * Creates the reader of an open database.
 * @param toText writes a parameter, null excepted, as the server reads it
 * @returns throws PGlite's own errors
 */
export function createRead(lite: PGlite, toText: (value: unknown) => string): Read {
  const names = new StatementNames();
  const prepared = new Set<string>();

  const send = async (
    sql: string,
    parameters: readonly unknown[],
    settings: Readonly<Record<string, string>>,
  ) => {
    const name = names.of(sql) ?? '';
    const parsed: string[] = [];
    const message: Uint8Array[] = [];
    const parseOnce = (statement: string, text: string) => {
      if (prepared.has(statement)) return;
      parsed.push(statement);
      message.push(serialize.parse({ name: statement, text }));
    };
    parseOnce(settingsName, settingsStatement);
    const set = settingsParameters({ ...settings, transaction_read_only: 'on' }).map(toText);
    message.push(serialize.bind({ statement: settingsName, values: set }), execute);
    parseOnce(name, sql);
    const values = parameters.map((value) => (value === null || value === undefined ? null : toText(value)));
    message.push(serialize.bind({ statement: name, values }), describePortal, execute, sync);
    const { messages: answers } = await lite.execProtocol(Buffer.concat(message), {
      syncToFs: false,
      throwOnError: false,
    });
    // Prepared statements survive failures.
    const parses = answers.filter(({ name: kind }) => kind === 'parseComplete').length;
    for (const statement of parsed.slice(0, parses)) if (statement !== '') prepared.add(statement);
    return answers;
  };

  return async <Row>(
    sql: string,
    parameters: readonly unknown[],
    settings: Readonly<Record<string, string>>,
  ) => {
    // Between others' transactions, and between their messages.
    const answers = await lite._runExclusiveTransaction(() =>
      lite._runExclusiveQuery(() => send(sql, parameters, settings)),
    );
    const failure = answers.find((answer) => answer instanceof DatabaseError);
    if (failure) throw failure;
    const readAnswers = answers.slice(1 + answers.findIndex(({ name }) => name === 'commandComplete'));
    const [result] = parse.parseResults(readAnswers, lite.parsers);
    const rows = (result?.rows ?? []) as Row[];
    return { rows, rowCount: result?.affectedRows || rows.length };
  };
}
