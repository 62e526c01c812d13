// Reads the schema cache from the catalogue: relations, columns, keys, relationships and functions.

import type { Session } from '../../database/database.ts';
import { type Catalogue, type FunctionRow, type RelationRow, readCatalogue } from './catalogue.ts';
import {
  appearancesOf,
  computedRelationships,
  declaredRelationships,
  functionsOfOneRow,
  isView,
  primaryKeysOf,
} from './relationships.ts';
import type {
  Column,
  ComputedColumn,
  DatabaseFunction,
  MediaHandler,
  Parameter,
  Relation,
  Representation,
  SchemaCache,
  TableName,
} from './schema-types.ts';

// Type names in requests that differ from those of the catalogue.
const typeAliases = { int: 'integer', decimal: 'numeric', dec: 'numeric', float: 'double precision' };

/**
 * Reads the schema cache.
 * @param session an open transaction whose search_path is empty, so that every type and function is qualified
 * @param schemas the exposed schemas
 * @param searched further schemas in which types and functions of a row are found
 */
export async function loadSchemaCache(
  session: Session,
  schemas: readonly string[],
  searched: readonly string[] = [],
): Promise<SchemaCache> {
  return assemble(await readCatalogue(session, schemas, searched));
}

function assemble(catalogue: Catalogue): SchemaCache {
  const rows = new Map(catalogue.relations.map((row) => [row.oid, row]));
  const columnsOf = columnsWith(representationsOf(catalogue));
  const appearances = appearancesOf(catalogue, rows);
  const relationships = groupBy(
    [...declaredRelationships(catalogue, rows, appearances), ...computedRelationships(catalogue, rows)],
    ({ origin }) => keyOf(origin),
  );
  const primaryKeys = primaryKeysOf(catalogue, appearances);
  const computedColumns = computedColumnsOf(catalogue, rows);
  const handlers = mediaHandlersOf(catalogue, rows);

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
      columns: columnsOf(row.columns),
      primaryKey: primaryKeys.get(row.oid) ?? [],
      computedColumns: computedColumns.get(row.oid) ?? new Map(),
      relationships: relationships.get(keyOf(row)) ?? [],
      mediaHandlers: handlers.get(row.oid) ?? new Map(),
    };
    schema.set(row.name, relation);
    byOid.set(row.oid, relation);
  }
  return {
    relations,
    functions: functionsOf(catalogue, rows, byOid, columnsOf),
    types: typesOf(catalogue.types),
    mediaHandlers: handlers.get(null) ?? new Map(),
    geoJsonOf: catalogue.geoJsonFunctions[0] ?? null,
    roleSettings: roleSettingsOf(catalogue),
  };
}

/** `name=value` as a pair. */
function settingOf(text: string): [name: string, value: string] {
  const equals = text.indexOf('=');
  return [text.slice(0, equals), text.slice(equals + 1)];
}

function roleSettingsOf({ roleSettings }: Catalogue): Map<string, Map<string, string>> {
  const roles = new Map<string, Map<string, string>>();
  for (const { role, setting } of roleSettings) {
    roles.set(role, new Map([...(roles.get(role) ?? []), settingOf(setting)]));
  }
  return roles;
}

const keyOf = ({ schema, name }: TableName) => `${schema}.${name}`;

type ColumnsOf = (columns: ReadonlyArray<Omit<Column, 'representation'>>) => Map<string, Column>;

function columnsWith(representations: ReadonlyMap<string, Representation>): ColumnsOf {
  return (columns) =>
    new Map(
      columns.map(({ name, type, kind, defaultExpression }) => [
        name,
        { name, type, kind, defaultExpression, representation: representations.get(type) ?? null },
      ]),
    );
}

/** By the domain's type. */
function representationsOf({ casts }: Catalogue): Map<string, Representation> {
  const found = new Map<string, Representation>();
  for (const { domain, direction, schema, name } of casts) {
    const representation = found.get(domain) ?? { toJson: null, fromJson: null, fromText: null };
    found.set(domain, { ...representation, [direction]: { schema, name } });
  }
  return found;
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

function computedColumnsOf(catalogue: Catalogue, rows: Map<number, RelationRow>) {
  const computed = new Map<number, Map<string, ComputedColumn>>();
  for (const { definition, row } of functionsOfOneRow(catalogue)) {
    if (definition.isSet || rows.has(definition.returnRelation)) continue;
    const { schema, name, returnColumnKind } = definition;
    const columns = computed.get(row.oid) ?? new Map<string, ComputedColumn>();
    // PostgreSQL finds the one of the relation's own schema first.
    const isHidden = columns.get(name)?.schema === row.schema;
    if (!isHidden) columns.set(name, { schema, name, kind: returnColumnKind });
    computed.set(row.oid, columns);
  }
  return computed;
}

function functionsOf(
  { schemas, functions }: Catalogue,
  rows: Map<number, RelationRow>,
  relations: Map<number, Relation>,
  columnsOf: ColumnsOf,
) {
  const result = new Map(schemas.map((schema) => [schema, new Map<string, DatabaseFunction[]>()]));
  for (const row of functions) {
    const inputs = row.types
      .map((type, at) => ({ type, name: row.names[at] ?? '', mode: row.modes[at] ?? 'i' }))
      .filter(({ mode }) => mode === 'i' || mode === 'b' || mode === 'v');
    if (!isCallable(inputs)) continue;
    const definition: DatabaseFunction = {
      schema: row.schema,
      name: row.name,
      isVolatile: row.volatility === 'v',
      isSet: row.isSet,
      settings: new Map(row.settings.map(settingOf)),
      parameters: inputs.map(({ type, name, mode }, at) => ({
        name,
        type,
        hasDefault: at >= inputs.length - row.defaultCount,
        isVariadic: mode === 'v',
      })),
      returns: returnsOf(row, rows, relations, columnsOf),
    };
    const overloads = result.get(row.schema)?.get(row.name);
    if (overloads) overloads.push(definition);
    else result.get(row.schema)?.set(row.name, [definition]);
  }
  for (const schema of result.values()) {
    for (const overloads of schema.values()) overloads.sort(compareOverloads);
  }
  return result;
}

// Types that an unnamed argument may have: it receives the whole body.
const wholeBodyTypes = new Set(['json', 'jsonb', 'text', 'xml', 'bytea']);

/** Arguments are given by their names, or one as the whole body. */
function isCallable(inputs: ReadonlyArray<{ name: string; type: string }>): boolean {
  const [only] = inputs;
  if (inputs.length === 1 && only?.name === '') return wholeBodyTypes.has(only.type);
  return inputs.every(({ name }) => name !== '');
}

/** Fewest parameters first, then by their names and types. */
function compareOverloads({ parameters: left }: DatabaseFunction, { parameters: right }: DatabaseFunction) {
  if (left.length !== right.length) return left.length - right.length;
  const textOf = (parameters: readonly Parameter[]) =>
    parameters.map(({ name, type }) => `${name}\0${type}\0`).join('');
  const [one, other] = [textOf(left), textOf(right)];
  return one < other ? -1 : one > other ? 1 : 0;
}

function returnsOf(
  row: FunctionRow,
  rows: Map<number, RelationRow>,
  relations: Map<number, Relation>,
  columnsOf: ColumnsOf,
): DatabaseFunction['returns'] {
  const outputs = row.modes.flatMap((mode, at) => {
    if (mode !== 'o' && mode !== 'b' && mode !== 't') return [];
    const name = row.names[at] || `column${at + 1}`;
    return { name, type: row.types[at] ?? 'text', kind: row.kinds[at] ?? 'other', defaultExpression: null };
  });
  if (outputs.length > 0) {
    return { kind: 'composite', columns: columnsOf(outputs), relation: null, isNamedType: false };
  }
  if (row.returnKind === 'void') return { kind: 'void' };
  if (row.returnKind === 'composite') {
    const returned = rows.get(row.returnRelation);
    const relation = relations.get(row.returnRelation) ?? null;
    const columns = columnsOf(returned?.columns ?? []);
    return { kind: 'composite', columns, relation, isNamedType: true };
  }
  return { kind: 'scalar', isRecord: row.returnKind === 'record', handler: ownHandlerOf(row) };
}

function ownHandlerOf({
  returnMediaType,
  isReturnBinary: isBinary,
  isSet,
}: FunctionRow): MediaHandler | null {
  if (returnMediaType === null || isSet) return null;
  return { mediaType: returnMediaType, isBinary, aggregate: null, rowsOf: null };
}

/** By the oid of the relation whose rows they accept; null for any. */
function mediaHandlersOf({ handlers }: Catalogue, rows: Map<number, RelationRow>) {
  const found = new Map<number | null, Map<string, MediaHandler>>();
  for (const { schema, name, mediaType, isBinary, relation } of handlers) {
    const row = relation === null ? null : rows.get(relation);
    if (row === undefined) continue;
    const rowsOf = row && { schema: row.schema, name: row.name };
    const ofRelation = found.get(relation) ?? new Map<string, MediaHandler>();
    ofRelation.set(mediaType, { mediaType, isBinary, aggregate: { schema, name }, rowsOf });
    found.set(relation, ofRelation);
  }
  return found;
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
