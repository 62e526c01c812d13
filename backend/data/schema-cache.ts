// What the database has: relations, columns, keys, relationships and functions, read from its catalogue.
import type { Session } from '../database/database.ts';
import { arrayLiteral } from './array-literal.ts';
import { columnOrigins } from './view-origins.ts';

export interface Column {
  name: string;
  /** The type as SQL text, from the catalogue. */
  type: string;
  /** Kinds of types whose operators differ. */
  kind: 'json' | 'tsvector' | 'other';
  /** What an insert that does not mention the column gives it, as SQL text from the catalogue. */
  defaultExpression: string | null;
}

/** A function of one row, read like a column. */
export interface ComputedColumn {
  schema: string;
  name: string;
  kind: Column['kind'];
}

export interface TableName {
  schema: string;
  name: string;
}

type ColumnPair = readonly [origin: string, foreign: string];

/** A way from the rows of one relation to rows of another. */
export interface Relationship {
  cardinality: 'many-to-one' | 'one-to-many' | 'one-to-one' | 'many-to-many';
  origin: TableName;
  foreign: TableName;
  /** The constraint's name; for many-to-many the junction's first; for a computed one the function's. */
  name: string;
  /** Origin and foreign columns that are equal; empty for many-to-many and computed ones. */
  columns: readonly ColumnPair[];
  isForeignView: boolean;
  junction: {
    table: TableName;
    constraints: readonly [string, string];
    /** Origin column and the junction's column for it. */
    originColumns: readonly ColumnPair[];
    /** Junction's column and the foreign column for it. */
    foreignColumns: readonly ColumnPair[];
  } | null;
  /** A function from a row of the origin to rows of the foreign relation. */
  computedBy: TableName | null;
}

export interface Relation extends TableName {
  isView: boolean;
  isInsertable: boolean;
  isUpdatable: boolean;
  isDeletable: boolean;
  columns: ReadonlyMap<string, Column>;
  primaryKey: readonly string[];
  computedColumns: ReadonlyMap<string, ComputedColumn>;
  relationships: readonly Relationship[];
}

export interface Parameter {
  /** '' when unnamed. */
  name: string;
  type: string;
  hasDefault: boolean;
  isVariadic: boolean;
}

export interface DatabaseFunction {
  schema: string;
  name: string;
  parameters: readonly Parameter[];
  isVolatile: boolean;
  isSet: boolean;
  returns:
    | { kind: 'void' | 'scalar' }
    /** `relation` is the table or view whose rows are returned, if it is exposed; `isNamedType`: no OUT parameters. */
    | {
        kind: 'composite';
        columns: ReadonlyMap<string, Column>;
        relation: Relation | null;
        isNamedType: boolean;
      };
}

export interface SchemaCache {
  /** By schema, then by name. Exposed schemas only. */
  relations: ReadonlyMap<string, ReadonlyMap<string, Relation>>;
  /** By schema, then by name: the overloads. */
  functions: ReadonlyMap<string, ReadonlyMap<string, readonly DatabaseFunction[]>>;
  /** Types a column may be cast to: what a request may call them, and their SQL text. */
  types: ReadonlyMap<string, string>;
  timeZones: ReadonlySet<string>;
}

interface RelationRow {
  oid: number;
  rowType: number;
  schema: string;
  name: string;
  kind: string;
  updatable: number;
  columns: Array<Column & { number: number }>;
}
interface ConstraintRow {
  name: string;
  kind: 'p' | 'u' | 'f';
  table: number;
  columns: number[];
  foreign: number;
  foreignColumns: number[];
}
interface FunctionRow {
  schema: string;
  name: string;
  volatility: string;
  isSet: boolean;
  isVariadic: boolean;
  estimatedRows: number;
  inputCount: number;
  defaultCount: number;
  names: string[];
  modes: string[];
  types: string[];
  kinds: Column['kind'][];
  firstInput: number | null;
  returnRelation: number;
  returnKind: string;
  returnColumnKind: Column['kind'];
}
interface ViewRow {
  oid: number;
  definition: string;
}

// Types a request may name that the catalogue calls otherwise.
const typeAliases = { int: 'integer', decimal: 'numeric', dec: 'numeric', float: 'double precision' };

const kindOf = (oid: string) => `
  case coalesce(nullif((select base.typbasetype from pg_type base where base.oid = ${oid}), 0), ${oid})
    when 'json'::regtype then 'json' when 'jsonb'::regtype then 'json'
    when 'tsvector'::regtype then 'tsvector' else 'other' end`;

const relationsSql = `
  select c.oid::int8 as oid, c.reltype::int8 as "rowType", n.nspname as schema, c.relname as name, c.relkind::text as kind,
    case when c.relkind in ('r', 'p', 'v', 'f') then pg_relation_is_updatable(c.oid, true) else 0 end as updatable,
    coalesce((
      select json_agg(json_build_object(
        'name', a.attname,
        'number', a.attnum,
        'type', format_type(a.atttypid, a.atttypmod),
        'kind', ${kindOf('a.atttypid')},
        'defaultExpression', case
          when a.attgenerated <> '' then null
          when a.attidentity <> '' then
            format('nextval(%L::regclass)', pg_get_serial_sequence(c.oid::regclass::text, a.attname))
          else pg_get_expr(d.adbin, d.adrelid) end
      ) order by a.attnum)
      from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
      where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped), '[]') as columns
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where c.relkind in ('r', 'p', 'v', 'm', 'f', 'c') and not c.relispartition
    and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname not like 'pg\\_toast%'
  order by n.nspname, c.relname`;

const constraintsSql = `
  select conname as name, contype::text as kind, conrelid::int8 as table, to_json(conkey) as columns,
    confrelid::int8 as foreign, coalesce(to_json(confkey), '[]') as "foreignColumns"
  from pg_constraint
  where contype in ('p', 'u', 'f') and conrelid <> 0 and conparentid = 0
  order by conname, conrelid`;

const viewsSql = `
  select c.oid::int8 as oid, r.ev_action::text as definition
  from pg_rewrite r join pg_class c on c.oid = r.ev_class join pg_namespace n on n.oid = c.relnamespace
  where r.rulename = '_RETURN' and n.nspname not in ('pg_catalog', 'information_schema')`;

const functionsSql = `
  select n.nspname as schema, p.proname as name, p.provolatile::text as volatility, p.proretset as "isSet",
    p.provariadic <> 0 as "isVariadic", p.prorows as "estimatedRows",
    p.pronargs as "inputCount", p.pronargdefaults as "defaultCount",
    coalesce(to_json(p.proargnames), '[]') as names, coalesce(to_json(p.proargmodes::text[]), '[]') as modes,
    coalesce(arguments.types, '[]') as types, coalesce(arguments.kinds, '[]') as kinds,
    case when p.pronargs >= 1 then (p.proargtypes::oid[])[0]::int8 end as "firstInput",
    coalesce(nullif(returned.typrelid, 0), domain_of.typrelid, 0)::int8 as "returnRelation",
    case when p.prorettype = 'void'::regtype then 'void'
      when p.prorettype = 'record'::regtype then 'record'
      when coalesce(domain_of.typtype, returned.typtype) = 'c' then 'composite' else 'scalar' end as "returnKind",
    ${kindOf('p.prorettype')} as "returnColumnKind"
  from pg_proc p
    join pg_namespace n on n.oid = p.pronamespace
    join pg_type returned on returned.oid = p.prorettype
    left join pg_type domain_of on domain_of.oid = returned.typbasetype and returned.typbasetype <> 0
    left join lateral (
      select json_agg(format_type(t.oid, -1) order by t.at) as types, json_agg(${kindOf('t.oid')} order by t.at) as kinds
      from unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) with ordinality as t(oid, at)
    ) arguments on true
  where p.prokind = 'f' and n.nspname = any($1)
    and p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype)
  order by n.nspname, p.proname, p.oid`;

const typesSql = `
  select t.typname as name, format_type(t.oid, -1) as type
  from pg_type t join pg_namespace n on n.oid = t.typnamespace
  where t.typtype in ('b', 'e', 'd', 'r') and t.typelem = 0 and (n.nspname = 'pg_catalog' or n.nspname = any($1))
  order by n.nspname = 'pg_catalog'`;

/**
 * Reads the catalogue.
 * @param session an open transaction whose search_path is empty, so that every type and function comes qualified
 * @param schemas the exposed schemas
 */
export async function loadSchemaCache(session: Session, schemas: readonly string[]): Promise<SchemaCache> {
  const exposed = [arrayLiteral(schemas)];
  const [relations, constraints, views, functions, types, timeZones] = await Promise.all([
    session.query<RelationRow>(relationsSql),
    session.query<ConstraintRow>(constraintsSql),
    session.query<ViewRow>(viewsSql),
    session.query<FunctionRow>(functionsSql, exposed),
    session.query<{ name: string; type: string }>(typesSql, exposed),
    session.query<{ name: string }>('select name from pg_timezone_names'),
  ]);
  return assemble({
    schemas,
    relations: relations.rows,
    constraints: constraints.rows,
    views: views.rows,
    functions: functions.rows,
    types: types.rows,
    timeZones: timeZones.rows.map(({ name }) => name),
  });
}

interface Catalogue {
  schemas: readonly string[];
  relations: RelationRow[];
  constraints: ConstraintRow[];
  views: ViewRow[];
  functions: FunctionRow[];
  types: Array<{ name: string; type: string }>;
  timeZones: string[];
}

function assemble(catalogue: Catalogue): SchemaCache {
  const rows = new Map(catalogue.relations.map((row) => [row.oid, row]));
  const appearances = appearancesOf(catalogue, rows);
  const relationships = groupBy(
    [...declaredRelationships(catalogue, rows, appearances), ...computedRelationships(catalogue, rows)],
    ({ origin }) => keyOf(origin),
  );
  const primaryKeys = primaryKeysOf(catalogue, appearances);
  const computedColumns = computedColumnsOf(catalogue, rows);

  const relations = new Map(catalogue.schemas.map((schema) => [schema, new Map<string, Relation>()]));
  const byOid = new Map<number, Relation>();
  for (const row of catalogue.relations) {
    const schema = relations.get(row.schema);
    if (!schema || row.kind === 'c') continue;
    const relation: Relation = {
      schema: row.schema,
      name: row.name,
      isView: isView(row),
      isInsertable: (row.updatable & 8) !== 0,
      isUpdatable: (row.updatable & 4) !== 0,
      isDeletable: (row.updatable & 16) !== 0,
      columns: columnsOf(row),
      primaryKey: primaryKeys.get(row.oid) ?? [],
      computedColumns: computedColumns.get(row.oid) ?? new Map(),
      relationships: relationships.get(keyOf(row)) ?? [],
    };
    schema.set(row.name, relation);
    byOid.set(row.oid, relation);
  }
  return {
    relations,
    functions: functionsOf(catalogue, rows, byOid),
    types: typesOf(catalogue.types),
    timeZones: new Set(catalogue.timeZones),
  };
}

const keyOf = ({ schema, name }: TableName) => `${schema}.${name}`;
const nameOf = ({ schema, name }: RelationRow): TableName => ({ schema, name });
const isView = (row: RelationRow) => row.kind === 'v' || row.kind === 'm';

function columnsOf(row: RelationRow): Map<string, Column> {
  return new Map(
    row.columns.map(({ name, type, kind, defaultExpression }) => [
      name,
      { name, type, kind, defaultExpression },
    ]),
  );
}

function groupBy<T>(items: readonly T[], key: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const group = groups.get(key(item));
    if (group) group.push(item);
    else groups.set(key(item), [item]);
  }
  return groups;
}

/** A relation that shows a table's rows: the table itself, or a view; under what names it shows the columns. */
interface Appearance {
  row: RelationRow;
  /** By the table's column number. A view may show a column more than once: the first counts. */
  names: ReadonlyMap<number, string>;
}

function appearancesOf({ relations, views }: Catalogue, rows: Map<number, RelationRow>) {
  const appearances = new Map<number, Appearance[]>();
  const add = (table: number, appearance: Appearance) => {
    const list = appearances.get(table);
    if (list) list.push(appearance);
    else appearances.set(table, [appearance]);
  };
  for (const row of relations) {
    if (isView(row) || row.kind === 'c') continue;
    add(row.oid, { row, names: new Map(row.columns.map(({ number, name }) => [number, name])) });
  }
  const origins = columnOrigins(views);
  for (const { oid } of views) {
    const row = rows.get(oid);
    if (!row) continue;
    const tables = new Map<number, Map<number, string>>();
    for (const { number, name } of row.columns) {
      const origin = origins(oid, number);
      if (!origin) continue;
      const names = tables.get(origin.table) ?? new Map<number, string>();
      if (!names.has(origin.column)) names.set(origin.column, name);
      tables.set(origin.table, names);
    }
    for (const [table, names] of tables) add(table, { row, names });
  }
  return appearances;
}

/** The names under which all of the columns appear, or null. */
function namesIn({ names }: Appearance, columns: readonly number[]): string[] | null {
  const found = columns.map((column) => names.get(column));
  return found.every((name) => name !== undefined) ? (found as string[]) : null;
}

function primaryKeysOf({ constraints }: Catalogue, appearances: Map<number, Appearance[]>) {
  const primaryKeys = new Map<number, string[]>();
  for (const { kind, table, columns } of constraints) {
    if (kind !== 'p') continue;
    for (const appearance of appearances.get(table) ?? []) {
      const names = namesIn(appearance, columns);
      if (!names) continue;
      const others = primaryKeys.get(appearance.row.oid) ?? [];
      primaryKeys.set(appearance.row.oid, [...others, ...names]);
    }
  }
  return primaryKeys;
}

function declaredRelationships(
  { constraints }: Catalogue,
  rows: Map<number, RelationRow>,
  appearances: Map<number, Appearance[]>,
): Relationship[] {
  const found: Relationship[] = [];
  const uniqueSets = new Map<number, Array<Set<number>>>();
  for (const { kind, table, columns } of constraints) {
    if (kind !== 'f') uniqueSets.set(table, [...(uniqueSets.get(table) ?? []), new Set(columns)]);
  }
  const foreignKeys = constraints.filter(({ kind }) => kind === 'f');
  for (const key of foreignKeys) {
    const isUnique = (uniqueSets.get(key.table) ?? []).some(
      (set) => set.size === key.columns.length && key.columns.every((column) => set.has(column)),
    );
    for (const [holder, target] of pairsOf(appearances, key.table, key.foreign)) {
      const holderColumns = namesIn(holder, key.columns);
      const targetColumns = namesIn(target, key.foreignColumns);
      if (!holderColumns || !targetColumns) continue;
      const common = { name: key.name, junction: null, computedBy: null };
      found.push({
        ...common,
        cardinality: isUnique ? 'one-to-one' : 'many-to-one',
        origin: nameOf(holder.row),
        foreign: nameOf(target.row),
        isForeignView: isView(target.row),
        columns: zip(holderColumns, targetColumns),
      });
      found.push({
        ...common,
        cardinality: isUnique ? 'one-to-one' : 'one-to-many',
        origin: nameOf(target.row),
        foreign: nameOf(holder.row),
        isForeignView: isView(holder.row),
        columns: zip(targetColumns, holderColumns),
      });
    }
  }
  for (const first of foreignKeys) {
    const junction = rows.get(first.table);
    if (!junction) continue;
    for (const second of foreignKeys) {
      if (second === first || second.table !== first.table) continue;
      const both = [...first.columns, ...second.columns];
      const isJunction = (uniqueSets.get(first.table) ?? []).some((set) =>
        both.every((column) => set.has(column)),
      );
      if (!isJunction || first.foreign === second.foreign) continue;
      for (const table of appearances.get(first.table) ?? []) {
        const toOrigin = namesIn(table, first.columns);
        const toForeign = namesIn(table, second.columns);
        if (!toOrigin || !toForeign) continue;
        for (const [origin, foreign] of pairsOf(appearances, first.foreign, second.foreign)) {
          const originColumns = namesIn(origin, first.foreignColumns);
          const foreignColumns = namesIn(foreign, second.foreignColumns);
          if (!originColumns || !foreignColumns) continue;
          found.push({
            cardinality: 'many-to-many',
            origin: nameOf(origin.row),
            foreign: nameOf(foreign.row),
            name: first.name,
            columns: [],
            isForeignView: isView(foreign.row),
            junction: {
              table: nameOf(table.row),
              constraints: [first.name, second.name],
              originColumns: zip(originColumns, toOrigin),
              foreignColumns: zip(toForeign, foreignColumns),
            },
            computedBy: null,
          });
        }
      }
    }
  }
  return found;
}

function* pairsOf(appearances: Map<number, Appearance[]>, left: number, right: number) {
  for (const one of appearances.get(left) ?? []) {
    for (const other of appearances.get(right) ?? []) yield [one, other] as const;
  }
}

const zip = (left: readonly string[], right: readonly string[]) =>
  left.map((name, at) => [name, right[at] ?? ''] as const);

/** Functions of exactly one row of a relation, by that relation. */
function* functionsOfOneRow({ functions, relations }: Catalogue) {
  const byRowType = new Map(
    relations.filter(({ rowType }) => rowType !== 0).map((row) => [row.rowType, row]),
  );
  for (const definition of functions) {
    if (definition.inputCount !== 1 || definition.firstInput === null) continue;
    const row = byRowType.get(definition.firstInput);
    if (row && row.kind !== 'c') yield { definition, row };
  }
}

function computedColumnsOf(catalogue: Catalogue, rows: Map<number, RelationRow>) {
  const computed = new Map<number, Map<string, ComputedColumn>>();
  for (const { definition, row } of functionsOfOneRow(catalogue)) {
    if (definition.isSet || rows.has(definition.returnRelation)) continue;
    const { schema, name, returnColumnKind } = definition;
    const columns = computed.get(row.oid) ?? new Map<string, ComputedColumn>();
    columns.set(name, { schema, name, kind: returnColumnKind });
    computed.set(row.oid, columns);
  }
  return computed;
}

function* computedRelationships(
  catalogue: Catalogue,
  rows: Map<number, RelationRow>,
): Generator<Relationship> {
  for (const { definition, row } of functionsOfOneRow(catalogue)) {
    const target = rows.get(definition.returnRelation);
    if (!target || target.kind === 'c') continue;
    yield {
      cardinality: !definition.isSet || definition.estimatedRows === 1 ? 'many-to-one' : 'one-to-many',
      origin: nameOf(row),
      foreign: nameOf(target),
      name: definition.name,
      columns: [],
      isForeignView: isView(target),
      junction: null,
      computedBy: { schema: definition.schema, name: definition.name },
    };
  }
}

function functionsOf(
  { schemas, functions }: Catalogue,
  rows: Map<number, RelationRow>,
  relations: Map<number, Relation>,
) {
  const result = new Map(schemas.map((schema) => [schema, new Map<string, DatabaseFunction[]>()]));
  for (const row of functions) {
    const inputs = row.types
      .map((type, at) => ({ type, name: row.names[at] ?? '', mode: row.modes[at] ?? 'i' }))
      .filter(({ mode }) => mode === 'i' || mode === 'b' || mode === 'v');
    const definition: DatabaseFunction = {
      schema: row.schema,
      name: row.name,
      isVolatile: row.volatility === 'v',
      isSet: row.isSet,
      parameters: inputs.map(({ type, name, mode }, at) => ({
        name,
        type,
        hasDefault: at >= inputs.length - row.defaultCount || mode === 'v',
        isVariadic: mode === 'v',
      })),
      returns: returnsOf(row, rows, relations),
    };
    const overloads = result.get(row.schema)?.get(row.name);
    if (overloads) overloads.push(definition);
    else result.get(row.schema)?.set(row.name, [definition]);
  }
  return result;
}

function returnsOf(
  row: FunctionRow,
  rows: Map<number, RelationRow>,
  relations: Map<number, Relation>,
): DatabaseFunction['returns'] {
  const outputs = row.modes.flatMap((mode, at) => {
    if (mode !== 'o' && mode !== 'b' && mode !== 't') return [];
    const name = row.names[at] || `column${at + 1}`;
    return { name, type: row.types[at] ?? 'text', kind: row.kinds[at] ?? 'other', defaultExpression: null };
  });
  if (outputs.length > 0) {
    const columns = new Map<string, Column>(outputs.map((column) => [column.name, column]));
    return { kind: 'composite', columns, relation: null, isNamedType: false };
  }
  if (row.returnKind === 'void') return { kind: 'void' };
  if (row.returnKind === 'composite') {
    const returned = rows.get(row.returnRelation);
    const relation = relations.get(row.returnRelation) ?? null;
    const columns = returned ? columnsOf(returned) : new Map<string, Column>();
    return { kind: 'composite', columns, relation, isNamedType: true };
  }
  return { kind: 'scalar' };
}

function typesOf(rows: Catalogue['types']): Map<string, string> {
  const types = new Map<string, string>();
  for (const { name, type } of rows) {
    for (const key of [name, type]) if (!types.has(key)) types.set(key, type);
  }
  for (const [alias, name] of Object.entries(typeAliases)) {
    const type = types.get(name);
    if (type) types.set(alias, type);
  }
  for (const [name, type] of [...types]) types.set(`${name}[]`, `${type}[]`);
  return types;
}
