// Third stage: a plan becomes one statement. Values are bound, identifiers come from the schema cache and are quoted;
// the only other names are output names, which are quoted and name nothing in the database.
import { arrayLiteral } from '../../database/array-literal.ts';
import type { Explanation } from '../parse/media-type.ts';
import type { CallPlan, Mutation, MutationPlan, ReadPlan } from '../plan/plan-types.ts';
import type { Column, MediaHandler, Parameter, Relation } from '../schema/schema-types.ts';
import { conditionsOf } from './sql-conditions.ts';
import { countedRows, rowTypeOf, selectFrom } from './sql-rows.ts';
import { list, nameOf, quoted, type Statement, Writer, where } from './sql-writer.ts';

/** The single row of every statement. Columns that do not apply are null. */
export interface Answer {
  /** Rows changed. */
  affected?: number | null;
  /** The body, as PostgreSQL built it; null when it has more bytes than the plan allows. */
  body: string | null;
  /** Bytes of the body that PostgreSQL built. Absent without a limit. */
  bytes?: number | null;
  /** Rows in the body. */
  page_total: number;
  /** Number of rows without limit and offset. */
  total: number | null;
  /** Rows that were new, of an upsert. */
  inserted: number | null;
  /** `column=eq.value` for each primary key column, of a single inserted row. */
  location: string[] | null;
  response_headers: string | null;
  response_status: string | null;
}

/**
 * Writes a plan as SQL.
 * @returns a statement that returns one `Answer`
 */
export function writeStatement(plan: ReadPlan | MutationPlan | CallPlan): Statement {
  const writer = new Writer();
  const sql =
    plan.kind === 'read'
      ? readStatement(writer, plan)
      : plan.kind === 'mutation'
        ? mutationStatement(writer, plan)
        : callStatement(writer, plan);
  return { sql, parameters: writer.parameters };
}

/** Writes the statement whose planned number of rows estimates a read's total. */
export function writeEstimate({ relation, node }: ReadPlan): Statement {
  const writer = new Writer();
  const sql = `explain (format json) select 1 ${countedRows(writer, node, nameOf(relation))}`;
  return { sql, parameters: writer.parameters };
}

/** The part of an answer besides the rows. */
export type RowsAnswer = Pick<Answer, 'page_total' | 'response_headers' | 'response_status'>;

/** Writes the statement that returns a read's rows one by one, each as JSON text named `row`. */
export function writeRows({ relation, node, media }: ReadPlan): Statement {
  const writer = new Writer();
  const rows = selectFrom(writer, node, nameOf(relation), 't');
  const row = media.isNullStripped ? 'json_strip_nulls(row_to_json(_rows.*))' : 'row_to_json(_rows.*)';
  return { sql: `select ${row}::text as row from (${rows}) as _rows`, parameters: writer.parameters };
}

/** Writes the statement that returns one `RowsAnswer` after the rows, whose number is known, have been read. */
export const writeRowSettings = (rowCount: number) =>
  `select ${Number(rowCount)}::int8 as page_total, ${responseSettings}`;

/**
 * Writes the statement that explains another.
 * @returns a statement whose rows, or one row of JSON, are named `QUERY PLAN`
 */
export function writeExplanation({ sql, parameters }: Statement, { form, options }: Explanation): Statement {
  return { sql: `explain (${list([`format ${form}`, ...options])}) ${sql}`, parameters };
}

const listOfColumns = (columns: readonly Column[]) => list(columns.map(({ name }) => quoted(name)));

// Read after the rows: functions and triggers that ran may have set them.
const responseSettings = `nullif(current_setting('response.headers', true), '') as response_headers,
  nullif(current_setting('response.status', true), '') as response_status`;

// ── Statements ───────────────────────────────────────────────────────────────────────────────────────────────────────

function readStatement(writer: Writer, plan: ReadPlan): string {
  const { node, relation, count, exactCountUpTo } = plan;
  const from = nameOf(relation);
  const rows = selectFrom(writer, node, from, 't');
  let total = 'null::int8';
  if (count === 'exact') total = `(select count(*) ${countedRows(writer, node, from)})`;
  if (count === 'estimated') {
    const limit =
      exactCountUpTo === Number.POSITIVE_INFINITY ? '' : ` limit ${writer.bind(exactCountUpTo + 1)}::int8`;
    total = `(select count(*) from (select 1 ${countedRows(writer, node, from)}${limit}) counted)`;
  }
  const answer = `select ${body(plan, 'rows')} as body, count(*) as page_total, ${total} as total,
  ${responseSettings} from _rows`;
  return `with _rows as (${rows}) ${withinBytes(plan, answer)}`;
}

function mutationStatement(writer: Writer, plan: MutationPlan): string {
  const { relation, returning, node, media, isCounted } = plan;
  const source = mutationSource(writer, plan);
  const inserted = `nullif(current_setting('response.inserted', true), '')::int8 as inserted`;
  if (returning !== 'representation') {
    const total = isCounted ? 'count(*)' : 'null::int8';
    const location =
      returning === 'headers-only' && relation.primaryKey.length > 0 ? locationOf : 'null::text[]';
    return `with source as (${source}) select count(*) as affected, count(*) as page_total, ${total} as total,
  ${location} as location, ${inserted}, ${responseSettings} from source`;
  }
  const rows = selectFrom(writer, node, 'source', rowTypeOf(relation));
  // First in the list: counting them completes the change before the settings are read.
  const affected = '(select count(*) from source)';
  const answer = `select ${affected} as affected, ${body({ media, hasBody: true }, 'rows')} as body,
  count(*) as page_total, ${isCounted ? affected : 'null::int8'} as total, ${inserted}, ${responseSettings} from _rows`;
  return `with source as (${source}), _rows as (${rows}) ${withinBytes(plan, answer, ['affected', 'inserted'])}`;
}

const locationOf = `case when count(*) = 1 then (
    select array_agg(key || '=' || coalesce('eq.' || value, 'is.null'))
    from source as made, json_each_text(row_to_json(made))) end`;

function callStatement(writer: Writer, plan: CallPlan): string {
  const { called, node, isCounted } = plan;
  const source = callSource(writer, plan);
  const result = called.returns;
  if (result.kind === 'void') {
    return `with source as (${source}) select 1::int8 as page_total, count(*) as called_rows, null::int8 as total, ${responseSettings} from source`;
  }
  const relation = result.kind === 'composite' ? result.relation : null;
  const rows = selectFrom(writer, node, 'source', relation ? rowTypeOf(relation) : 't');
  const shape = result.kind === 'scalar' ? 'values' : 'rows';
  const total = isCounted ? `(select count(*) ${countedRows(writer, node, 'source')})` : 'null::int8';
  // A function that returns no set returns one row.
  const pageTotal = called.isSet ? 'count(*)' : '1::int8';
  const answer = `select ${body(plan, shape, !called.isSet)} as body, ${pageTotal} as page_total, ${total} as total,
  ${responseSettings} from _rows`;
  return `with source as (${source}), _rows as (${rows}) ${withinBytes(plan, answer)}`;
}

/**
 * Omits the body of an answer that is longer than the plan allows, so that it never reaches this process.
 * @param answer a select of one row with the columns of an `Answer`
 * @param more further columns of it
 */
function withinBytes(
  { maxAnswerBytes: most }: { maxAnswerBytes: number },
  answer: string,
  more: readonly (keyof Answer)[] = [],
): string {
  if (most === Number.POSITIVE_INFINITY) return answer;
  const bytes = 'octet_length(body)';
  const columns: (keyof Answer)[] = ['page_total', 'total', 'response_headers', 'response_status', ...more];
  return `select ${bytes} as bytes, case when ${bytes} <= ${Number(most)} then body end as body, ${list(columns)}
  from (${answer}) as answer`;
}

function body(
  { media, hasBody }: Pick<ReadPlan, 'media' | 'hasBody'>,
  shape: 'rows' | 'values',
  isSingle = false,
): string {
  if (!hasBody) return 'null';
  if (media.format === 'csv') {
    return `coalesce((
      select string_agg(key, ',') from json_object_keys((select row_to_json(_first.*) from _rows as _first limit 1)) as key
    ), '') || E'\\n' || coalesce(string_agg(substring(_rows::text, 2, length(_rows::text) - 2), E'\\n'), '')`;
  }
  if (media.handler) return handledBody(media.handler);
  if (media.geoJsonOf) {
    const features = `coalesce(json_agg(${nameOf(media.geoJsonOf)}(_rows.*)::json), '[]')`;
    return `json_build_object('type', 'FeatureCollection', 'features', ${features})::text`;
  }
  const aggregated = shape === 'values' ? 'json_agg(_rows.value)' : 'json_agg(_rows.*)';
  const rows = media.isNullStripped ? `json_strip_nulls(${aggregated})` : aggregated;
  return isSingle || media.format === 'object'
    ? `coalesce((${rows} -> 0)::text, 'null')`
    : `coalesce(${rows}::text, '[]')`;
}

function handledBody({ aggregate, rowsOf, isBinary }: MediaHandler): string {
  const rows = rowsOf ? `row(_rows.*)::${nameOf(rowsOf)}` : '_rows.*';
  const value = aggregate ? `${nameOf(aggregate)}(${rows})` : 'value';
  const text = isBinary ? `encode(${value}::bytea, 'base64')` : `coalesce(${value}::text, '')`;
  return aggregate ? text : `(select ${text} from _rows limit 1)`;
}

// ── Changes ──────────────────────────────────────────────────────────────────────────────────────────────────────────

function mutationSource(writer: Writer, plan: MutationPlan): string {
  const { mutation, relation, rows } = plan;
  const target = `${nameOf(relation)} as t`;
  const returned = returnedColumns(plan);
  const returning = `returning ${returned}`;
  const nothing =
    plan.returning === 'minimal'
      ? 'select 1 as one where false'
      : `select ${returned} from ${target} where false`;
  switch (mutation.kind) {
    case 'delete':
      return `delete from ${target}${where(conditionsOf(writer, mutation.conditions, 't'))} ${returning}`;
    case 'update': {
      if (!rows || rows.count === 0 || mutation.columns.length === 0) return nothing;
      const sets = mutation.columns.map(({ name }) => `${quoted(name)} = p.${quoted(name)}`);
      const payload = payloadRows(writer, rows, mutation.columns);
      const conditions = where(conditionsOf(writer, mutation.conditions, 't'));
      return `update ${target} set ${list(sets)} from (${payload} limit 1) as p${conditions} ${returning}`;
    }
    case 'insert':
      if (!rows || rows.count === 0) return nothing;
      return `insert into ${target} ${insertedRows(writer, relation, rows, mutation)} ${returning}`;
  }
}

function insertedRows(
  writer: Writer,
  relation: Relation,
  rows: NonNullable<MutationPlan['rows']>,
  { columns, conflict, conditions }: Mutation & { kind: 'insert' },
): string {
  if (columns.length === 0) {
    const [first] = relation.columns.values();
    if (rows.count === 1 || !first) return 'default values';
    return `(${quoted(first.name)}) values ${list(Array.from({ length: rows.count }, () => '(default)'))}`;
  }
  const names = listOfColumns(columns);
  const payload = payloadRows(writer, rows, columns);
  const isMerging = conflict?.resolution === 'merge-duplicates';
  const matching = conditionsOf(writer, conditions, 'p');
  if (isMerging) matching.push(countInserted('+ 1'));
  const insert = `(${names}) select ${names} from (${payload}) as p${where(matching)}`;
  if (!conflict) return insert;
  const target = `on conflict (${listOfColumns(conflict.columns)})`;
  if (!isMerging) return `${insert} ${target} do nothing`;
  const sets = columns.map(({ name }) => `${quoted(name)} = excluded.${quoted(name)}`);
  return `${insert} ${target} do update set ${list(sets)} where ${countInserted('- 1')}`;
}

// Every row counts as inserted until it conflicts. The always-true condition runs for its side effect.
const countInserted = (step: '+ 1' | '- 1') =>
  `set_config('response.inserted', (coalesce(nullif(current_setting('response.inserted', true), '')::int8, 0) ${step})::text, true) is not null`;

/** The payload as rows with the columns' types. */
function payloadRows(
  writer: Writer,
  { text, isArray, takesDefaults }: NonNullable<MutationPlan['rows']>,
  columns: readonly Column[],
): string {
  const isTaken = columns.some(({ representation }) => representation?.fromJson);
  const definition = list(
    columns.map(
      ({ name, type, representation }) => `${quoted(name)} ${representation?.fromJson ? 'json' : type}`,
    ),
  );
  const rows = writer.bind(text);
  const values = columns.map(({ name, defaultExpression, representation }) => {
    const fromJson = representation?.fromJson;
    const value = fromJson ? `${nameOf(fromJson)}(given.${quoted(name)})` : `given.${quoted(name)}`;
    if (!takesDefaults || defaultExpression === null) return `${value} as ${quoted(name)}`;
    const key = writer.bind(name);
    return `case when element ? ${key}::text then ${value} else fallback.${quoted(name)} end as ${quoted(name)}`;
  });
  if (!takesDefaults) {
    const reading = isArray ? 'json_to_recordset' : 'json_to_record';
    return `select ${isTaken ? list(values) : '*'} from ${reading}(${rows}::json) as given(${definition})`;
  }
  const elements = isArray
    ? `jsonb_array_elements(${rows}::jsonb) as element`
    : `(select ${rows}::jsonb) as given_alone(element)`;
  // Every row evaluates its defaults, used or not, as in PostgREST: sequences advance by the number of rows.
  const defaults = columns.flatMap(({ name, type, defaultExpression }) =>
    defaultExpression === null ? [] : [`(${defaultExpression})::${type} as ${quoted(name)}`],
  );
  const fallback =
    defaults.length > 0 ? `, lateral (select ${list(defaults)} where element is not null) as fallback` : '';
  return `select ${list(values)} from ${elements},
    lateral jsonb_to_record(element) as given(${definition})${fallback}`;
}

/** Columns returned by a change: only needed ones, because the role may not be allowed to read others. */
function returnedColumns({ returning, relation, node }: MutationPlan): string {
  if (returning === 'minimal') return '1 as one';
  if (returning === 'headers-only') {
    return relation.primaryKey.length > 0
      ? list(relation.primaryKey.map((name) => `t.${quoted(name)}`))
      : '1 as one';
  }
  const names = new Set<string>();
  const fields = [
    ...node.items.flatMap((item) => (item.kind === 'field' ? [item.field] : [])),
    ...node.orders.filter(({ embed }) => embed === null).map(({ field }) => field),
  ];
  const needsWholeRow =
    node.items.some(({ kind }) => kind === 'star') ||
    fields.some(({ computed }) => computed !== null) ||
    node.embeds.some(({ relationship }) => relationship.computedBy !== null);
  if (needsWholeRow) return 't.*';
  for (const { column } of fields) if (column) names.add(column.name);
  for (const { relationship } of node.embeds) {
    for (const [column] of relationship.junction?.originColumns ?? relationship.columns) names.add(column);
  }
  return names.size > 0 ? list([...names].map((name) => `t.${quoted(name)}`)) : '1 as one';
}

// ── Calls ────────────────────────────────────────────────────────────────────────────────────────────────────────────

function callSource(writer: Writer, { called, callArguments }: CallPlan): string {
  const pass = ({ name, isVariadic }: Parameter, value: string) =>
    `${isVariadic ? 'variadic ' : ''}${name === '' ? '' : `${quoted(name)} => `}${value}`;
  let before = '';
  let passed: string[] = [];
  switch (callArguments.kind) {
    case 'whole': {
      const { parameter, text } = callArguments;
      passed = [`${writer.bind(text)}::${parameter.type}`];
      break;
    }
    case 'text':
      passed = callArguments.values.map(([parameter, values]) => {
        const value = parameter.isVariadic ? arrayLiteral(values) : (values[0] ?? '');
        return pass(parameter, `${writer.bind(value)}::${parameter.type}`);
      });
      break;
    case 'json': {
      const { parameters, text } = callArguments;
      if (parameters.length === 0) break;
      const definition = list(parameters.map(({ name, type }) => `${quoted(name)} ${type}`));
      const wrapped = text.trimStart().startsWith('[') ? text : `[${text}]`;
      before = `(select * from json_to_recordset(${writer.bind(wrapped)}::json) as given(${definition}) limit 1) as p, lateral `;
      passed = parameters.map((parameter) => pass(parameter, `p.${quoted(parameter.name)}`));
    }
  }
  const call = `${before}${nameOf(called)}(${list(passed)})`;
  const { returns } = called;
  if (returns.kind === 'scalar' && returns.isRecord) {
    // Its columns are unknown to PostgreSQL too: the row is one value.
    return `select ${nameOf(called)}(${list(passed)}) as value${before && ` from ${before.replace(/, lateral $/, '')}`}`;
  }
  if (returns.kind !== 'composite') return `select t.value from ${call} as t(value)`;
  // A null of a composite type is no row, not a row of nulls.
  const isPresent = returns.isNamedType && !called.isSet ? ' where not (t.* is null)' : '';
  return `select t.* from ${call} as t${isPresent}`;
}
