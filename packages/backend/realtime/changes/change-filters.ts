// The conditions of subscriptions as SQL: values are bound parameters, names and types come from the catalogue.
import { type Database, DatabaseError, type Session } from '../../database/database.ts';
import { patternCost } from '../../limits/pattern-cost.ts';
import { isOutage } from '../outage.ts';
import { type ChangedTable, quoted, type TableColumn } from './changed-tables.ts';
import type { ChangeFilter, ChangeInterest } from './subscription-params.ts';

const maxListed = 100;
/** Maximum states of a regular expression's automaton. */
const maxStates = 60;
const setsPerStatement = 200;
const symbols = {
  eq: '=',
  neq: '<>',
  lt: '<',
  lte: '<=',
  gt: '>',
  gte: '>=',
  like: '~~',
  ilike: '~~*',
  match: '~',
  imatch: '~*',
};
const truths = new Map([
  ['null', 'null'],
  ['true', 'true'],
  ['false', 'false'],
  ['unknown', 'unknown'],
]);
/** Filters run with the backend's own rights, with a timeout; names resolve as in requests. */
const settings = { search_path: 'public, extensions', statement_timeout: '5000' };
const conditionNames = new Map([
  ['P0001', 'raise_exception'],
  ['22P02', 'invalid_text_representation'],
  ['22007', 'invalid_datetime_format'],
  ['2201B', 'invalid_regular_expression'],
  ['42883', 'undefined_function'],
  ['57014', 'query_canceled'],
]);

/** Why a subscription does not fit a table, in the words of a hosted project's database. */
export class UnfitInterest extends Error {
  override readonly name = 'UnfitInterest';
}

/** Result of the filters for one change. */
export interface FilterAnswer {
  /** The primary key's values as a JSON object, as text so that large numbers keep their precision. */
  key: string;
  /** By `filtersKey`. */
  passed: ReadonlySet<string>;
}

/** Key of a set of filters; '' without filters. */
export function filtersKey(filters: readonly ChangeFilter[]): string {
  return filters.length === 0 ? '' : JSON.stringify(filters);
}

/**
 * Checks that a table can serve an interest: its columns exist, the role may read them, and values have the columns' types.
 * @throws UnfitInterest
 */
export async function checkInterest(
  database: Database,
  table: ChangedTable,
  interest: ChangeInterest,
  role: string,
): Promise<void> {
  const readable = (name: string) =>
    table.columns.find((column) => column.name === name && column.readers.includes(role));
  for (const { column, operator, value } of interest.filters) {
    if (!readable(column)) throw refused(`invalid column for filter ${column}`);
    if (operator === 'is' && !truths.has(value))
      throw refused('invalid value for is filter: must be null, true, false, or unknown');
    if ((operator === 'match' || operator === 'imatch') && patternCost(value) > maxStates)
      throw new UnfitInterest(
        'ERROR 2201B (invalid_regular_expression) invalid regular expression: regular expression is too complex',
      );
  }
  for (const name of interest.select ?? []) {
    if (!readable(name)) throw refused(`invalid column for select ${name}`);
  }
  if (interest.filters.length === 0) return;
  const { sql, parameters, columns } = written(table, [interest.filters], 0);
  try {
    await database.transaction(
      async (session) => {
        await session.query(
          `select ${sql.map((condition) => `(${condition}) is null`).join(', ')} from jsonb_to_record('{}') as r(${columns})`,
          parameters,
        );
        for (const filter of interest.filters) await checkValue(session, filter);
      },
      { readOnly: true, settings },
    );
  } catch (error) {
    if (!(error instanceof DatabaseError) || isOutage(error)) throw error;
    const name = conditionNames.get(error.code);
    throw new UnfitInterest(`ERROR ${error.code}${name ? ` (${name})` : ''} ${error.message}`);
  }
}

/**
 * Evaluates the filters for several changes of one table.
 * @param ids of the changes, with their transactions
 * @throws DatabaseError when the database is unavailable; a filter that fails by itself matches nothing
 */
export async function askFilters(
  database: Database,
  table: ChangedTable,
  changes: readonly { transaction: string; id: number }[],
  filterSets: readonly (readonly ChangeFilter[])[],
  onError: (error: unknown) => void,
): Promise<Map<number, FilterAnswer>> {
  const answers = new Map<number, { key: string; passed: Set<string> }>();
  const validSets = filterSets.filter((filters) =>
    filters.every(({ column }) => table.columns.some(({ name }) => name === column)),
  );
  const queryMatches = async (sets: readonly (readonly ChangeFilter[])[]) => {
    const { sql, parameters, columns } = written(table, sets, 3);
    const { rows } = await database.transaction(
      (session) =>
        session.query<{ id: number; key: string; passed: boolean[] }>(
          `select c.id,
                  coalesce((select jsonb_object_agg(key, value) from jsonb_each(c.record) where key = any($3::text[])), '{}')::text as key,
                  jsonb_build_array(${sql.map((condition) => `coalesce(${condition}, false)`).join(', ')}) as passed
           from realtime.changes as c
           ${columns ? `cross join lateral jsonb_to_record(coalesce(c.record, c.old_record)) as r(${columns})` : ''}
           where c.transaction = any($1::xid8[]) and c.id = any($2::int8[])`,
          [
            `{${[...new Set(changes.map(({ transaction }) => transaction))].join(',')}}`,
            `{${changes.map(({ id }) => id).join(',')}}`,
            arrayText(table.columns.filter(({ isKey }) => isKey).map(({ name }) => name)),
            ...parameters,
          ],
        ),
      { readOnly: true, settings },
    );
    for (const { id, key, passed } of rows) {
      const answer = answers.get(id) ?? { key, passed: new Set() };
      answers.set(id, answer);
      sets.forEach((filters, index) => {
        if (passed[index]) answer.passed.add(filtersKey(filters));
      });
    }
  };
  for (let from = 0; from === 0 || from < validSets.length; from += setsPerStatement) {
    const sets = validSets.slice(from, from + setsPerStatement);
    try {
      await queryMatches(sets);
    } catch (error) {
      if (sets.length === 0 || isOutage(error)) throw error;
      // One of them fails, for example because a column's type has changed: evaluate the others without it.
      await queryMatches([]);
      for (const filters of sets) {
        await queryMatches([filters]).catch((failure) => {
          if (isOutage(failure)) throw failure;
          onError(failure);
        });
      }
    }
  }
  return answers;
}

/** Checks the filter against the columns' types, since no row was there to evaluate it on. */
async function checkValue(session: Session, { operator, value }: ChangeFilter): Promise<void> {
  if (operator === 'match' || operator === 'imatch') await session.query(`select '' ~ $1::text`, [value]);
  if (operator !== 'in') return;
  const { rows } = await session.query<{ n: number }>('select cardinality($1::text[]) as n', [value]);
  if ((rows[0]?.n ?? 0) > maxListed) throw refused(`too many values for \`in\` filter. Maximum ${maxListed}`);
}

/** Conditions on `r`, one per set of filters, and the columns that `r` must have. */
function written(table: ChangedTable, sets: readonly (readonly ChangeFilter[])[], offset: number) {
  const parameters: string[] = [];
  const used = new Map<string, TableColumn>();
  const sql = sets.map((filters) =>
    filters
      .map((filter) => {
        const column = table.columns.find(({ name }) => name === filter.column);
        if (!column) throw new Error(`${table.name} has no column ${filter.column}`);
        used.set(column.name, column);
        if (filter.operator !== 'is') parameters.push(filter.value);
        return condition(filter, column, `$${offset + parameters.length}`);
      })
      .join(' and '),
  );
  const columns = [...used.values()].map(({ name, type }) => `${quoted(name)} ${type}`).join(', ');
  return { sql, parameters, columns };
}

function condition(filter: ChangeFilter, column: TableColumn, parameter: string): string {
  const { operator, isNegated, value } = filter;
  const subject = `r.${quoted(column.name)}`;
  const not = isNegated ? 'not ' : '';
  switch (operator) {
    case 'is':
      return `${subject} is ${not}${truths.get(value) ?? 'null'}`;
    case 'isdistinct':
      return `${subject} is ${isNegated ? 'not ' : ''}distinct from ${parameter}::${column.type}`;
    case 'in':
      return `${not}(${subject} = any(${parameter}::${column.type}[]))`;
    default:
      return `${not}(${subject} ${symbols[operator]} ${parameter}::${column.type})`;
  }
}

function refused(message: string): UnfitInterest {
  return new UnfitInterest(`ERROR P0001 (raise_exception) ${message}`);
}

function arrayText(texts: readonly string[]): string {
  return `{${texts.map((text) => `"${text.replace(/["\\]/g, '\\$&')}"`).join(',')}}`;
}
