// Finds relationships between relations: foreign keys, junctions, views over them, and functions of a row.
import type { Catalogue, RelationRow } from './catalogue.ts';
import type { Relationship, TableName } from './schema-types.ts';
import { columnOrigins } from './view-origins.ts';

const nameOf = ({ schema, name }: RelationRow): TableName => ({ schema, name });
/** Whether a relation is a view, materialised or not. */
export const isView = (row: RelationRow) => row.kind === 'v' || row.kind === 'm';

/** A relation that contains a table's rows: the table itself, or a view with its column names. */
interface Appearance {
  row: RelationRow;
  /** By the table's column number. A view may show a column more than once. */
  names: ReadonlyMap<number, readonly string[]>;
}

/** Where each table's rows appear, by the table's oid. */
export function appearancesOf({ relations, views }: Catalogue, rows: Map<number, RelationRow>) {
  const appearances = new Map<number, Appearance[]>();
  const add = (table: number, appearance: Appearance) => {
    const list = appearances.get(table);
    if (list) list.push(appearance);
    else appearances.set(table, [appearance]);
  };
  for (const row of relations) {
    if (isView(row) || row.kind === 'c') continue;
    add(row.oid, { row, names: new Map(row.columns.map(({ number, name }) => [number, [name]])) });
  }
  const origins = columnOrigins(views);
  for (const { oid } of views) {
    const row = rows.get(oid);
    if (!row) continue;
    const tables = new Map<number, Map<number, string[]>>();
    for (const { number, name } of row.columns) {
      const origin = origins(oid, number);
      if (!origin) continue;
      const names = tables.get(origin.table) ?? new Map<number, string[]>();
      names.set(origin.column, [...(names.get(origin.column) ?? []), name]);
      tables.set(origin.table, names);
    }
    for (const [table, names] of tables) add(table, { row, names });
  }
  return appearances;
}

/** All combinations of names for the columns. */
function namesIn({ names }: Appearance, columns: readonly number[]): string[][] {
  let ways: string[][] = [[]];
  for (const column of columns) {
    const viewColumns = names.get(column) ?? [];
    ways = ways.flatMap((way) => viewColumns.map((name) => [...way, name]));
    if (ways.length > maxWays) ways.length = maxWays;
  }
  return ways;
}

// A view that shows the same columns over and over would multiply the relationships without end.
const maxWays = 16;

/** Primary keys by relation; a view has those of the tables whose key it contains. */
export function primaryKeysOf({ constraints }: Catalogue, appearances: Map<number, Appearance[]>) {
  const primaryKeys = new Map<number, string[]>();
  for (const { kind, table, columns } of constraints) {
    if (kind !== 'p') continue;
    for (const appearance of appearances.get(table) ?? []) {
      const [names] = namesIn(appearance, columns);
      if (!names) continue;
      const others = primaryKeys.get(appearance.row.oid) ?? [];
      primaryKeys.set(appearance.row.oid, [...others, ...names]);
    }
  }
  return primaryKeys;
}

/** Relationships of foreign keys, in both directions, and through junctions. */
export function declaredRelationships(
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
      const common = { name: key.name, junction: null, computedBy: null };
      for (const [holderColumns, targetColumns] of waysOf(holder, key.columns, target, key.foreignColumns)) {
        found.push({
          ...common,
          cardinality: isUnique ? 'one-to-one' : 'many-to-one',
          origin: nameOf(holder.row),
          foreign: nameOf(target.row),
          isForeignView: isView(target.row),
          holdsKey: true,
          columns: zip(holderColumns, targetColumns),
        });
        found.push({
          ...common,
          cardinality: isUnique ? 'one-to-one' : 'one-to-many',
          origin: nameOf(target.row),
          foreign: nameOf(holder.row),
          isForeignView: isView(holder.row),
          holdsKey: false,
          columns: zip(targetColumns, holderColumns),
        });
      }
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
        const [toOrigin] = namesIn(table, first.columns);
        const [toForeign] = namesIn(table, second.columns);
        if (!toOrigin || !toForeign) continue;
        for (const [origin, foreign] of pairsOf(appearances, first.foreign, second.foreign)) {
          const [originColumns] = namesIn(origin, first.foreignColumns);
          const [foreignColumns] = namesIn(foreign, second.foreignColumns);
          if (!originColumns || !foreignColumns) continue;
          found.push({
            cardinality: 'many-to-many',
            origin: nameOf(origin.row),
            foreign: nameOf(foreign.row),
            name: first.name,
            columns: [],
            isForeignView: isView(foreign.row),
            holdsKey: false,
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

function* waysOf(left: Appearance, columns: readonly number[], right: Appearance, others: readonly number[]) {
  for (const one of namesIn(left, columns)) {
    for (const other of namesIn(right, others)) yield [one, other] as const;
  }
}

function* pairsOf(appearances: Map<number, Appearance[]>, left: number, right: number) {
  for (const one of appearances.get(left) ?? []) {
    for (const other of appearances.get(right) ?? []) yield [one, other] as const;
  }
}

const zip = (left: readonly string[], right: readonly string[]) =>
  left.map((name, at) => [name, right[at] ?? ''] as const);

/** Functions of exactly one row of a relation, with that relation. */
export function* functionsOfOneRow({ functions, relations }: Catalogue) {
  const byRowType = new Map(
    relations.filter(({ rowType }) => rowType !== 0).map((row) => [row.rowType, row]),
  );
  for (const definition of functions) {
    if (definition.inputCount !== 1 || definition.firstInput === null) continue;
    const row = byRowType.get(definition.firstInput);
    if (row && row.kind !== 'c') yield { definition, row };
  }
}

/** Functions from a row of one relation to rows of another. */
export function* computedRelationships(
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
      holdsKey: false,
      junction: null,
      computedBy: { schema: definition.schema, name: definition.name },
    };
  }
}
