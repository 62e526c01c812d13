// One statement of the embedded database and its settings as one message (PostgreSQL's protocol, "Pipelining"). The Sync that follows
// ends their transaction. Five calls into WebAssembly become one for a read, and two for a change, whose result is accepted first.
import { messages, type PGlite, parse, protocol } from '@electric-sql/pglite';
import { type QueryResult, settingsParameters, settingsStatement } from '../database.ts';
import { StatementNames } from '../statement-names.ts';

const { serialize } = protocol;
const { DatabaseError } = messages;
const settingsName = 'settings';
const execute = serialize.execute();
const describePortal = serialize.describe({ type: 'P' });
const flush = serialize.flush();
const sync = serialize.sync();
const rollback = serialize.query('rollback');

type Answers = Awaited<ReturnType<PGlite['execProtocol']>>['messages'];

/**
 * Runs one statement. Prepared statements last as long as the database is open.
 * @param accept throws if the result is refused, so that the change is undone. Null: ends the transaction in the same message
 */
export type RunSingle = <Row>(
  sql: string,
  parameters: readonly unknown[],
  settings: Readonly<Record<string, string>>,
  accept: ((result: QueryResult<Row>) => void) | null,
) => Promise<QueryResult<Row>>;

/**
 * Creates the runner of single statements of an open database.
 * @param toText writes a parameter, null excepted, as the server reads it
 * @returns throws PGlite's own errors, and those of `accept`
 */
export function createRunSingle(lite: PGlite, toText: (value: unknown) => string): RunSingle {
  const names = new StatementNames();
  const prepared = new Set<string>();

  const exchange = async (message: Uint8Array): Promise<Answers> => {
    // PostgreSQL itself waits for the disk at a commit (durable-node-fs.ts).
    const options = { syncToFs: false, throwOnError: false };
    return (await lite.execProtocol(message, options)).messages;
  };

  const send = (
    sql: string,
    parameters: readonly unknown[],
    settings: Readonly<Record<string, string>>,
    end: Uint8Array,
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
    message.push(
      serialize.bind({ statement: settingsName, values: settingsParameters(settings).map(toText) }),
      execute,
    );
    parseOnce(name, sql);
    const values = parameters.map((value) => (value === null || value === undefined ? null : toText(value)));
    message.push(serialize.bind({ statement: name, values }), describePortal, execute, end);
    return exchange(Buffer.concat(message)).then((answers) => {
      // Prepared statements survive failures.
      const parses = answers.filter(({ name: kind }) => kind === 'parseComplete').length;
      for (const statement of parsed.slice(0, parses)) if (statement !== '') prepared.add(statement);
      return answers;
    });
  };

  const failureOf = (answers: Answers) => answers.find((answer) => answer instanceof DatabaseError);

  const resultOf = <Row>(answers: Answers): QueryResult<Row> => {
    const failure = failureOf(answers);
    if (failure) throw failure;
    const ofStatement = answers.slice(1 + answers.findIndex(({ name }) => name === 'commandComplete'));
    const [result] = parse.parseResults(ofStatement, lite.parsers);
    const rows = (result?.rows ?? []) as Row[];
    return { rows, rowCount: result?.affectedRows || rows.length };
  };

  return (sql, parameters, settings, accept) =>
    // Between others' transactions, and between their messages.
    lite._runExclusiveTransaction(() =>
      lite._runExclusiveQuery(async () => {
        if (!accept) return resultOf(await send(sql, parameters, settings, sync));
        const answers = await send(sql, parameters, settings, flush);
        if (failureOf(answers)) await exchange(sync);
        const result = resultOf<never>(answers);
        try {
          accept(result);
        } catch (refusal) {
          await exchange(rollback);
          throw refusal;
        }
        const failure = failureOf(await exchange(sync));
        if (failure) throw failure;
        return result;
      }),
    );
}
