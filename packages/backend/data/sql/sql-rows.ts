// Writes rows with their embedded resources as nested selects.

import type { Aggregate } from '../parse/query-tree.ts';
import type {
  PlannedCondition,
  PlannedEmbed,
  PlannedField,
  PlannedOrder,
  ReadNode,
} from '../plan/plan-types.ts';
import type { Relation } from '../schema/schema-types.ts';
import { conditionsOf, fieldOf } from './sql-conditions.ts';
import { list, nameOf, quoted, type Writer, where } from './sql-writer.ts';

/** A selected value and the name it is shown under; null for all columns. */
interface Shown {
  name: string | null;
  /** For an aggregate, its argument. */
  sql: string;
  aggregate?: { name: Aggregate; cast: string | null };
  /** JSON cannot be grouped by, its binary form can. */
  isJson?: boolean;
}

/** The parts of a select, to be wrapped by the caller. */
interface Level {
  alias: string;
  shown: Shown[];
  /** The relation's columns, for a star that is grouped by. */
  columns: readonly string[];
  /** From `from` to `where`. */
  rest: string;
  /** Expressions of embeds that rows are ordered by, and therefore grouped by. */
  orderedBy: readonly string[];
  /** Order, limit and offset. */
  end: string;
}

/** Writes the row `t` with its relation's type, which functions require and rows of a common table expression lack. */
export const rowTypeOf = (relation: Relation) => `row(t.*)::${nameOf(relation)}`;

/** Selects a node's rows from a relation or common table expression; `row` is the whole row as an argument. */
export function selectFrom(writer: Writer, node: ReadNode, from: string, row: string): string {
  return asSelect(level(writer, node, { alias: 't', row, from: `${from} as t`, conditions: [] }));
}

function asSelect({ alias, shown, columns, rest, orderedBy, end }: Level): string {
  if (!shown.some(({ aggregate }) => aggregate)) {
    const items = shown.map(({ name, sql }) => (name === null ? sql : `${sql} as ${quoted(name)}`));
    return `select ${list(items)} ${rest}${end}`;
  }
  const expanded = shown.flatMap((item): Shown[] =>
    item.name === null ? columns.map((name) => ({ name, sql: `${alias}.${quoted(name)}` })) : [item],
  );
  const items = expanded.map(({ name, sql, aggregate, isJson }) => {
    const value = aggregate ? `${aggregate.name}(${sql})` : isJson ? `(${sql})::jsonb` : sql;
    return `${aggregate?.cast ? `cast(${value} as ${aggregate.cast})` : value} as ${quoted(name ?? '')}`;
  });
  const groups = [
    ...expanded.flatMap(({ aggregate }, at) => (aggregate ? [] : [String(at + 1)])),
    ...orderedBy,
  ];
  const grouping = groups.length > 0 ? ` group by ${list(groups)}` : '';
  return `select ${list(items)} ${rest}${grouping}${end}`;
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
    joins.set(embed, join(writer, embed, base, { orders, isTested: isTested(embed, node.conditions) }));
  }
  const joined = (embed: PlannedEmbed) => joins.get(embed)?.alias ?? '';
  const selected = node.items.flatMap((item): Shown[] => {
    if (item.kind === 'embed') return joins.get(item.embed)?.shown ?? [];
    if (item.kind === 'star') return [{ name: null, sql: `${base.alias}.*` }];
    const value = item.field ? shownField(writer, item.field, base, item.kind === 'field') : '*';
    const sql = item.cast === null ? value : `cast(${value} as ${item.cast})`;
    const shownValue = { name: item.outputName, sql };
    if (item.kind === 'field') return [shownValue];
    return [{ ...shownValue, aggregate: { name: item.aggregate, cast: item.aggregateCast } }];
  });
  const conditions = [
    ...base.conditions,
    ...conditionsOf(
      writer,
      node.conditions,
      base.alias,
      base.row,
      (embed, has) => `${joined(embed)}.found is ${has ? 'not null' : 'null'}`,
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
  let end = '';
  if (orders.length > 0) end += ` order by ${list(orders)}`;
  if (node.limit !== null) end += ` limit ${writer.bind(node.limit)}::int8`;
  if (node.offset > 0) end += ` offset ${writer.bind(node.offset)}::int8`;
  const orderedBy = node.orders.flatMap(({ embed, field }) => {
    const same = node.orders.filter((order) => order.embed === embed);
    return embed ? [`${joined(embed)}.order${same.findIndex((order) => order.field === field)}`] : [];
  });
  return { alias: base.alias, shown: selected, columns: [...node.columns.keys()], rest, orderedBy, end };
}

/** A field in its representation; an aggregate's argument without it. */
function shownField(writer: Writer, field: PlannedField, base: Base, isShown: boolean): string {
  const sql = fieldOf(writer, field, base);
  const toJson = isShown && field.path.length === 0 && field.column?.representation?.toJson;
  return toJson ? `${nameOf(toJson)}(${sql})` : sql;
}

/** Whether a condition tests the existence of embedded rows. */
function isTested(embed: PlannedEmbed, conditions: readonly PlannedCondition[]): boolean {
  return conditions.some((condition) =>
    condition.kind === 'group'
      ? isTested(embed, condition.conditions)
      : condition.kind === 'embed is null' && condition.embed === embed,
  );
}

interface Join {
  alias: string;
  /** The parent's columns of it. */
  shown: Shown[];
  /** The lateral join itself. Where something may test it, its column `found` is null when there is nothing to embed. */
  sql: string;
}

function join(
  writer: Writer,
  embed: PlannedEmbed,
  parent: Base,
  { orders, isTested }: { orders: readonly PlannedOrder[]; isTested: boolean },
): Join {
  const { node, isToOne, isInner, isSpread, outputName } = embed;
  const alias = writer.alias('e');
  const base = embeddedBase(writer, embed, parent);
  const inside = level(writer, node, base);
  const ordering = orders.map(({ field }, at) => `, ${fieldOf(writer, field, base)} as order${at}`).join('');
  let found: string;
  let selected: Shown[];
  if (isSpread) {
    const spread = inside.shown.flatMap((item) =>
      item.name === null
        ? [...node.columns.keys()].map((name) => ({ name, sql: `${base.alias}.${quoted(name)}` }))
        : [item],
    );
    const columns = spread.map(({ sql }, at) => `, ${sql === '*' ? '1' : sql} as column${at}`).join('');
    if (isToOne) {
      found = `select true as found${columns}${ordering} ${inside.rest}${inside.end}`;
      selected = spread.map((item, at) => ({
        ...item,
        sql: item.sql === '*' ? '*' : `${alias}.column${at}`,
      }));
    } else {
      const lists = spread.map((_, at) => `, json_agg(x.column${at}) as column${at}`).join('');
      found = `select nullif(count(*), 0) as found${lists} from (select true as found${columns} ${inside.rest}${inside.end}) as x`;
      selected = spread.map(({ name }, at) => ({ name, sql: `coalesce(${alias}.column${at}, '[]')` }));
    }
  } else if (!isToOne) {
    found = `select json_agg(_row.*) as found from (${asSelect(inside)}) as _row`;
    selected = [{ name: outputName, sql: `coalesce(${alias}.found, '[]')`, isJson: true }];
  } else if (!ordering && !isTested && inside.shown.length > 0) {
    // Aggregate JSON from the joined rows only.
    found = asSelect(inside);
    selected = [{ name: outputName, sql: `row_to_json(${alias}.*)`, isJson: true }];
  } else {
    found = ordering
      ? `select (select row_to_json(_row.*) from (${asSelect({ ...inside, rest: '', orderedBy: [], end: '' })}) as _row) as found${ordering} ${inside.rest}${inside.end}`
      : `select row_to_json(_row.*) as found from (${asSelect(inside)}) as _row`;
    selected = [{ name: outputName, sql: `${alias}.found`, isJson: true }];
  }
  // An empty embed only joins.
  if (inside.shown.length === 0) selected = [];
  const sql = isInner
    ? ` join lateral (${found}) as ${alias} on ${isToOne ? 'true' : `${alias}.found is not null`}`
    : ` left join lateral (${found}) as ${alias} on true`;
  return { alias, shown: selected, sql };
}

/** Source of embedded rows, and their join to the parent's row. */
function embeddedBase(writer: Writer, { relationship }: PlannedEmbed, parent: Base): Base {
  const alias = writer.alias('t');
  const equal = (left: string, right: string, pairs: ReadonlyArray<readonly [string, string]>) =>
    pairs.map(([one, other]) => `${left}.${quoted(one)} = ${right}.${quoted(other)}`);
  const { junction, computedBy, foreign, columns } = relationship;
  if (computedBy) {
    return {
      alias,
      row: alias,
      from: `${nameOf(computedBy)}(${parent.row}) as ${alias}`,
      conditions: [],
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

/** The rows of a node without order, limit and embeds, from `from` to the end. */
export function countedRows(writer: Writer, node: ReadNode, from: string): string {
  return counted(writer, node, { alias: 't', row: 't', from: `${from} as t`, conditions: [] });
}

function counted(writer: Writer, node: ReadNode, base: Base): string {
  const exists = (embed: PlannedEmbed) =>
    `exists (select ${counted(writer, embed.node, embeddedBase(writer, embed, base))})`;
  const conditions = [
    ...base.conditions,
    ...conditionsOf(writer, node.conditions, base.alias, base.row, (embed, has) =>
      has ? exists(embed) : `not ${exists(embed)}`,
    ),
    ...node.embeds.filter(({ isInner }) => isInner).map(exists),
  ];
  return `from ${base.from}${where(conditions)}`;
}
