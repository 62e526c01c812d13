// Third stage: a plan becomes one statement. Values are bound, identifiers come from the schema cache and are quoted;
// the only other names are output names, which are quoted and name nothing in the database.
import { arrayLiteral } from './array-literal.ts';
import type {
  CallPlan,
  Mutation,
  MutationPlan,
  PlannedCondition,
  PlannedEmbed,
  PlannedField,
  PlannedOrder,
  ReadNode,
  ReadPlan,
} from './plan.ts';
import type { Comparison, Operation, TextSearch } from './query-tree.ts';
import type { Column, Parameter, Relation, TableName } from './schema-cache.ts';

export interface Statement {
  sql: string;
  parameters: string[];
}

/** The one row every statement gives. Columns that do not apply are null. */
export interface Answer {
  /** Rows changed, or returned by the function before filters. */
  affected: number | null;
  /** The body, as PostgreSQL built it. */
  body: string | null;
  /** Rows in the body. */
  page_total: number;
  /** Rows there are without limit and offset. */
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
 * @returns a statement that gives one `Answer`
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

/** Writes the statement whose planned number of rows is the estimate of a read's total. */
export function writeEstimate({ relation, node }: ReadPlan): Statement {
  const writer = new Writer();
  const sql = `explain (format json) select 1 ${countedRows(writer, node, nameOf(relation))}`;
  return { sql, parameters: writer.parameters };
}

class Writer {
  readonly parameters: string[] = [];
  #aliases = 0;

  bind(value: string | number): string {
    return `$${this.parameters.push(String(value))}`;
  }

  alias(prefix: string): string {
    return `${prefix}${this.#aliases++}`;
  }
}

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;
const nameOf = ({ schema, name }: TableName) => `${quoted(schema)}.${quoted(name)}`;
const list = (parts: readonly string[]) => parts.join(', ');
const listOfColumns = (columns: readonly Column[]) => list(columns.map(({ name }) => quoted(name)));
const where = (conditions: readonly string[]) =>
  conditions.length > 0 ? ` where ${conditions.join(' and ')}` : '';

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
    const limit = writer.bind(exactCountUpTo + 1);
    total = `(select count(*) from (select 1 ${countedRows(writer, node, from)} limit ${limit}::int8) counted)`;
  }
  return `with r as (${rows}) select ${body(plan, 'rows')} as body, count(*) as page_total, ${total} as total,
  ${responseSettings} from r`;
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
  return `with source as (${source}), r as (${rows}) select ${affected} as affected,
  ${body({ media, hasBody: true }, 'rows')} as body, count(*) as page_total,
  ${isCounted ? affected : 'null::int8'} as total, ${inserted}, ${responseSettings} from r`;
}

const locationOf = `case when count(*) = 1 then (
    select array_agg(key || '=' || coalesce('eq.' || value, 'is.null'))
    from source as made, json_each_text(row_to_json(made))) end`;

function callStatement(writer: Writer, plan: CallPlan): string {
  const { called, node, isCounted } = plan;
  const source = callSource(writer, plan);
  const result = called.returns;
  if (result.kind === 'void') {
    return `with source as (${source}) select count(*) as page_total, ${responseSettings} from source`;
  }
  const relation = result.kind === 'composite' ? result.relation : null;
  const rows = selectFrom(writer, node, 'source', relation ? rowTypeOf(relation) : 't');
  const shape = result.kind === 'scalar' ? 'values' : 'rows';
  const total = isCounted ? `(select count(*) ${countedRows(writer, node, 'source')})` : 'null::int8';
  return `with source as (${source}), r as (${rows}) select (select count(*) from source) as affected,
  ${body(plan, shape, !called.isSet)} as body, count(*) as page_total, ${total} as total, ${responseSettings} from r`;
}

function body(
  { media, hasBody }: Pick<ReadPlan, 'media' | 'hasBody'>,
  shape: 'rows' | 'values',
  isSingle = false,
): string {
  if (!hasBody) return 'null';
  if (media.format === 'csv') {
    return `coalesce((
      select string_agg(key, ',') from json_object_keys((select row_to_json(first) from r as first limit 1)) as key
    ), '') || E'\\n' || coalesce(string_agg(substring(r::text, 2, length(r::text) - 2), E'\\n'), '')`;
  }
  const aggregated = shape === 'values' ? 'json_agg(r.value)' : 'json_agg(r)';
  const rows = media.isNullStripped ? `json_strip_nulls(${aggregated})` : aggregated;
  return isSingle || media.format === 'object'
    ? `coalesce((${rows} -> 0)::text, 'null')`
    : `coalesce(${rows}::text, '[]')`;
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
  const wanted = conditionsOf(writer, conditions, 'p');
  if (isMerging) wanted.push(countInserted('+ 1'));
  const insert = `(${names}) select ${names} from (${payload}) as p${where(wanted)}`;
  if (!conflict) return insert;
  const target = `on conflict (${listOfColumns(conflict.columns)})`;
  if (!isMerging) return `${insert} ${target} do nothing`;
  const sets = columns.map(({ name }) => `${quoted(name)} = excluded.${quoted(name)}`);
  return `${insert} ${target} do update set ${list(sets)} where ${countInserted('- 1')}`;
}

// Every row counts as new until it meets its duplicate. A condition that is always true, for what it does.
const countInserted = (step: '+ 1' | '- 1') =>
  `set_config('response.inserted', (coalesce(nullif(current_setting('response.inserted', true), '')::int8, 0) ${step})::text, true) is not null`;

/** The payload as rows with the columns' types. */
function payloadRows(
  writer: Writer,
  { text, takesDefaults }: NonNullable<MutationPlan['rows']>,
  columns: readonly Column[],
): string {
  const definition = list(columns.map(({ name, type }) => `${quoted(name)} ${type}`));
  const rows = writer.bind(text);
  if (!takesDefaults) return `select * from json_to_recordset(${rows}::json) as row(${definition})`;
  const values = columns.map(({ name, defaultExpression }) => {
    const given = `row.${quoted(name)}`;
    if (defaultExpression === null) return given;
    const key = writer.bind(name);
    return `case when element ? ${key}::text then ${given} else (${defaultExpression}) end as ${quoted(name)}`;
  });
  return `select ${list(values)} from jsonb_array_elements(${rows}::jsonb) as element,
    lateral jsonb_to_record(element) as row(${definition})`;
}

/** What a change returns: no column that is not needed, for the role may not be allowed to read it. */
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
      before = `(select * from json_to_recordset(${writer.bind(wrapped)}::json) as row(${definition}) limit 1) as p, lateral `;
      passed = parameters.map((parameter) => pass(parameter, `p.${quoted(parameter.name)}`));
    }
  }
  const call = `${before}${nameOf(called)}(${list(passed)})`;
  const { returns } = called;
  if (returns.kind !== 'composite') return `select t.value from ${call} as t(value)`;
  // A null of a composite type is no row, not a row of nulls.
  const isPresent = returns.isNamedType && !called.isSet ? ' where not (t is null)' : '';
  return `select t.* from ${call} as t${isPresent}`;
}

// ── Rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A selected value and the name it is shown under; null for all columns. */
interface Shown {
  name: string | null;
  sql: string;
}

/** The parts of a select, before it is known how its rows are wrapped. */
interface Level {
  alias: string;
  shown: Shown[];
  /** From `from` to the end. */
  rest: string;
}

// A row of a common table expression has lost its type; functions of the row want it back.
const rowTypeOf = (relation: Relation) => `row(t.*)::${nameOf(relation)}`;

/** Selects a node's rows from a relation or common table expression; `row` is the whole row as an argument. */
function selectFrom(writer: Writer, node: ReadNode, from: string, row: string): string {
  return asSelect(level(writer, node, { alias: 't', row, from: `${from} as t`, conditions: [] }));
}

function asSelect({ shown, rest }: Pick<Level, 'shown' | 'rest'>): string {
  const items = shown.map(({ name, sql }) => (name === null ? sql : `${sql} as ${quoted(name)}`));
  return `select ${list(items)} ${rest}`;
}

interface Base {
  alias: string;
  row: string;
  from: string;
  conditions: readonly string[];
}

function level(writer: Writer, node: ReadNode, base: Base): Level {
  const joins = new Map<PlannedEmbed, Join>();
  for (const embed of node.embeds) {
    const orders = node.orders.filter((order) => order.embed === embed);
    joins.set(embed, join(writer, embed, base, orders));
  }
  const joined = (embed: PlannedEmbed) => joins.get(embed)?.alias ?? '';
  const shown = node.items.flatMap((item): Shown[] => {
    if (item.kind === 'embed') return joins.get(item.embed)?.shown ?? [];
    if (item.kind === 'star') return [{ name: null, sql: `${base.alias}.*` }];
    if (item.kind === 'row count') return [{ name: item.outputName, sql: 'count(*)' }];
    const sql = fieldOf(writer, item.field, base);
    return [{ name: item.outputName, sql: item.cast === null ? sql : `cast(${sql} as ${item.cast})` }];
  });
  const conditions = [
    ...base.conditions,
    ...conditionsOf(
      writer,
      node.conditions,
      base.alias,
      base.row,
      (embed) => `${joined(embed)}.found is null`,
    ),
  ];
  const orders = node.orders.map(({ embed, field, direction, nulls }) => {
    const position = embed
      ? node.orders.filter((order) => order.embed === embed).findIndex((order) => order.field === field)
      : 0;
    const sql = embed ? `${joined(embed)}.order${position}` : fieldOf(writer, field, base);
    return `${sql}${direction ? ` ${direction}` : ''}${nulls ? ` nulls ${nulls}` : ''}`;
  });
  let rest = `from ${base.from}`;
  for (const { sql } of joins.values()) rest += sql;
  rest += where(conditions);
  if (orders.length > 0) rest += ` order by ${list(orders)}`;
  if (node.limit !== null) rest += ` limit ${writer.bind(node.limit)}::int8`;
  if (node.offset > 0) rest += ` offset ${writer.bind(node.offset)}::int8`;
  return { alias: base.alias, shown, rest };
}

interface Join {
  alias: string;
  /** What the parent shows of it. */
  shown: Shown[];
  /** The lateral join itself. Its column `found` is null when there is nothing to embed. */
  sql: string;
}

function join(writer: Writer, embed: PlannedEmbed, parent: Base, orders: readonly PlannedOrder[]): Join {
  const { node, isToOne, isInner, isSpread, outputName } = embed;
  const alias = writer.alias('e');
  const base = embeddedBase(writer, embed, parent);
  const inside = level(writer, node, base);
  const ordering = orders.map(({ field }, at) => `, ${fieldOf(writer, field, base)} as order${at}`).join('');
  let found: string;
  let shown: Shown[];
  if (isSpread) {
    const spread = inside.shown.flatMap((item) =>
      item.name === null
        ? [...node.columns.keys()].map((name) => ({ name, sql: `${base.alias}.${quoted(name)}` }))
        : [{ name: item.name, sql: item.sql }],
    );
    const columns = spread.map(({ sql }, at) => `, ${sql} as column${at}`).join('');
    if (isToOne) {
      found = `select true as found${columns}${ordering} ${inside.rest}`;
      shown = spread.map(({ name }, at) => ({ name, sql: `${alias}.column${at}` }));
    } else {
      const lists = spread.map((_, at) => `, json_agg(x.column${at}) as column${at}`).join('');
      found = `select nullif(count(*), 0) as found${lists} from (select true as found${columns} ${inside.rest}) as x`;
      shown = spread.map(({ name }, at) => ({ name, sql: `coalesce(${alias}.column${at}, '[]')` }));
    }
  } else if (!isToOne) {
    found = `select json_agg(x) as found from (${asSelect(inside)}) as x`;
    shown = [{ name: outputName, sql: `coalesce(${alias}.found, '[]')` }];
  } else {
    found = ordering
      ? `select (select row_to_json(x) from (${asSelect({ shown: inside.shown, rest: '' })}) as x) as found${ordering} ${inside.rest}`
      : `select row_to_json(x) as found from (${asSelect(inside)}) as x`;
    shown = [{ name: outputName, sql: `${alias}.found` }];
  }
  // An empty embed only joins.
  if (node.items.length === 0) shown = [];
  const sql = isInner
    ? ` join lateral (${found}) as ${alias} on ${isToOne ? 'true' : `${alias}.found is not null`}`
    : ` left join lateral (${found}) as ${alias} on true`;
  return { alias, shown, sql };
}

/** Where embedded rows come from, and how they belong to the parent's row. */
function embeddedBase(writer: Writer, { relationship, node, isToOne }: PlannedEmbed, parent: Base): Base {
  const alias = writer.alias('t');
  const equal = (left: string, right: string, pairs: ReadonlyArray<readonly [string, string]>) =>
    pairs.map(([one, other]) => `${left}.${quoted(one)} = ${right}.${quoted(other)}`);
  const { junction, computedBy, foreign, columns } = relationship;
  if (computedBy) {
    return {
      alias,
      row: alias,
      from: `${nameOf(computedBy)}(${parent.row}) as ${alias}`,
      conditions: isToOne && node.relation ? [`not (${alias} is null)`] : [],
    };
  }
  if (junction) {
    const between = writer.alias('j');
    return {
      alias,
      row: alias,
      from: `${nameOf(foreign)} as ${alias} join ${nameOf(junction.table)} as ${between} on ${equal(
        between,
        alias,
        junction.foreignColumns,
      ).join(' and ')}`,
      conditions: equal(parent.alias, between, junction.originColumns),
    };
  }
  return {
    alias,
    row: alias,
    from: `${nameOf(foreign)} as ${alias}`,
    conditions: equal(parent.alias, alias, columns),
  };
}

/** The rows of a node without order, limit and what is embedded, from `from` to the end. */
function countedRows(writer: Writer, node: ReadNode, from: string): string {
  return counted(writer, node, { alias: 't', row: 't', from: `${from} as t`, conditions: [] });
}

function counted(writer: Writer, node: ReadNode, base: Base): string {
  const exists = (embed: PlannedEmbed) =>
    `exists (select ${counted(writer, embed.node, embeddedBase(writer, embed, base))})`;
  const conditions = [
    ...base.conditions,
    ...conditionsOf(writer, node.conditions, base.alias, base.row, (embed) => `not ${exists(embed)}`),
    ...node.embeds.filter(({ isInner }) => isInner).map(exists),
  ];
  return `from ${base.from}${where(conditions)}`;
}

// ── Conditions ───────────────────────────────────────────────────────────────────────────────────────────────────────

function conditionsOf(
  writer: Writer,
  conditions: readonly PlannedCondition[],
  alias: string,
  row = alias,
  isMissing: (embed: PlannedEmbed) => string = () => 'false',
): string[] {
  const write = (condition: PlannedCondition): string => {
    switch (condition.kind) {
      case 'group': {
        const joined = `(${condition.conditions.map(write).join(` ${condition.joiner} `)})`;
        return condition.isNegated ? `not ${joined}` : joined;
      }
      case 'embed is null':
        return condition.isNegated ? `not (${isMissing(condition.embed)})` : isMissing(condition.embed);
      case 'filter': {
        const sql = operationOf(writer, fieldOf(writer, condition.field, { alias, row }), condition);
        return condition.isNegated ? `not (${sql})` : sql;
      }
    }
  };
  return conditions.map(write);
}

const operators: Readonly<Record<Comparison, string>> = {
  eq: '=',
  neq: '<>',
  gt: '>',
  gte: '>=',
  lt: '<',
  lte: '<=',
  like: 'like',
  ilike: 'ilike',
  match: '~',
  imatch: '~*',
  cs: '@>',
  cd: '<@',
  ov: '&&',
  sl: '<<',
  sr: '>>',
  nxr: '&<',
  nxl: '&>',
  adj: '-|-',
  isdistinct: 'is distinct from',
};

const searchFunctions: Readonly<Record<TextSearch, string>> = {
  fts: 'to_tsquery',
  plfts: 'plainto_tsquery',
  phfts: 'phraseto_tsquery',
  wfts: 'websearch_to_tsquery',
};

function operationOf(
  writer: Writer,
  field: string,
  { operation, field: { column, computed, path } }: { operation: Operation; field: PlannedField },
): string {
  switch (operation.kind) {
    case 'is':
      return `${field} is ${operation.value.replace('_', ' ')}`;
    case 'in':
      // Bound without a cast: the server infers an array of the column's type.
      return operation.values.length === 0
        ? 'false'
        : `${field} = any (${writer.bind(arrayLiteral(operation.values))})`;
    case 'search': {
      const language = operation.language === null ? '' : `${writer.bind(operation.language)}::regconfig, `;
      const isVector = path.length === 0 && (column ?? computed)?.kind === 'tsvector';
      const document = isVector ? field : `to_tsvector(${language}${field})`;
      return `${document} @@ ${searchFunctions[operation.operator]}(${language}${writer.bind(operation.value)}::text)`;
    }
    case 'comparison': {
      const { operator, quantifier } = operation;
      const isPattern = operator === 'like' || operator === 'ilike';
      const value = writer.bind(isPattern ? operation.value.replaceAll('*', '%') : operation.value);
      return `${field} ${operators[operator]} ${quantifier ? `${quantifier} (${value})` : value}`;
    }
  }
}

function fieldOf(
  writer: Writer,
  { column, computed, path }: PlannedField,
  { alias, row }: Pick<Base, 'alias' | 'row'>,
): string {
  const sql = column ? `${alias}.${quoted(column.name)}` : computed ? `${nameOf(computed)}(${row})` : 'null';
  if (path.length === 0) return sql;
  const start = (column ?? computed)?.kind === 'json' ? sql : `to_jsonb(${sql})`;
  const steps = path.map((step) => {
    const arrow = step.isText ? '->>' : '->';
    return 'key' in step ? `${arrow} ${writer.bind(step.key)}::text` : `${arrow} (${step.index})`;
  });
  return `(${start} ${steps.join(' ')})`;
}
