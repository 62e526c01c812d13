// Property test: for generated tables and queries, the service returns the same rows as plain SQL.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Database } from '../database/database.ts';
import { platform, testDatabases, throwawayDatabase } from '../testing/throwaway.ts';
import { createDataService } from './service.ts';

/** Queries per generated schema. */
const numRuns = Number(process.env.PROPERTY_RUNS ?? 40);
const seed = process.env.PROPERTY_SEED === undefined ? 20_261 : Number(process.env.PROPERTY_SEED);

// ── Generators ────────────────────────────────────────────────────────────────────────────────────────────────

const text = fc
  .oneof(
    fc.string({ unit: 'grapheme', maxLength: 6 }),
    fc.constantFrom('', 'null', 'a,b', '(x)', '"q"', "it's", '\\', '50%', '{1}', 'a.b', '*', 'NULL', ' pad '),
  )
  // PostgreSQL's text has no such character.
  .map((value) => value.replaceAll('\0', ''));
const kinds = {
  integer: fc.integer({ min: -50, max: 50 }),
  text,
  boolean: fc.boolean(),
  numeric: fc.integer({ min: -900, max: 900 }).map((value) => value / 4),
  date: fc
    .date({ min: new Date('1999-12-25'), max: new Date('2001-01-05'), noInvalidDate: true })
    .map((value) => value.toISOString().slice(0, 10)),
};
type Kind = keyof typeof kinds;
type Value = string | number | boolean | null;

interface Column {
  name: string;
  kind: Kind;
}
interface Table {
  name: string;
  columns: Column[];
  rows: Value[][];
}
interface Model {
  parents: Table;
  children: Table;
  /** For each child its parent's id, or none. */
  parentOf: Array<number | null>;
}

const oddNames = [
  ...['height', 'label', 'kind'],
  ...[
    'plain',
    'Upper',
    'two words',
    'ünï',
    'quo"te',
    'dot.ted',
    'com,ma',
    'par(en)',
    'back\\slash',
    'a-b',
    'a->b',
  ],
  ...[
    'select',
    'order',
    'limit',
    'and',
    'or',
    'not',
    'columns',
    'x.order',
    'count',
    '$1',
    "o'clock",
    '%41',
    'a+b',
    '*',
  ],
];
const reserved = new Set(['select', 'order', 'limit', 'and', 'or', 'not', 'columns']);
const kind = fc.constantFrom(...(Object.keys(kinds) as Kind[]));
const table = (name: string): fc.Arbitrary<Table> =>
  fc
    .uniqueArray(fc.record({ name: fc.constantFrom(...oddNames), kind }), {
      minLength: 2,
      maxLength: 6,
      selector: (column) => column.name,
    })
    .chain((columns) => {
      const row = fc.tuple(...columns.map((column) => fc.option<Value>(kinds[column.kind], { freq: 4 })));
      return fc.record({
        name: fc.constant(name),
        columns: fc.constant(columns),
        rows: fc.array(row, { minLength: 3, maxLength: 15 }),
      });
    });
const model: fc.Arbitrary<Model> = fc
  .record({ parents: table('pär "ents"'), children: table('children') })
  .chain(({ parents, children }) =>
    fc.record({
      parents: fc.constant(parents),
      children: fc.constant(children),
      parentOf: fc.array(fc.option(fc.integer({ min: 1, max: parents.rows.length }), { freq: 5 }), {
        minLength: children.rows.length,
        maxLength: children.rows.length,
      }),
    }),
  );

/** A condition in both languages: as part of a URL, and as SQL with bound values. */
type Sql = (bind: (value: Value | string[]) => string, alias: string) => string;
interface Condition {
  url: string;
  sql: Sql;
  /** The same filter as a separate query parameter, where possible. */
  pair?: [key: string, value: string];
  /** Whether `url` is inside and=(…) or or=(…). */
  isGroup: boolean;
}

const inUrl = (name: string) => `"${name.replaceAll(/["\\]/g, '\\$&')}"`;
const inSql = (name: string) => `"${name.replaceAll('"', '""')}"`;
const quotedValue = (value: Value) => `"${String(value).replaceAll(/["\\]/g, '\\$&')}"`;
const operators = {
  eq: '=',
  neq: '<>',
  gt: '>',
  gte: '>=',
  lt: '<',
  lte: '<=',
  isdistinct: 'is distinct from',
};
type Operator = keyof typeof operators;

const columnOf = ({ columns }: Table) => fc.constantFrom(...columns);

const comparison = (of: Table): fc.Arbitrary<Condition> =>
  columnOf(of).chain((column) =>
    fc
      .record({
        operator: fc.constantFrom(...(Object.keys(operators) as Operator[])),
        value: kinds[column.kind] as fc.Arbitrary<Value>,
        isNegated: fc.boolean(),
      })
      .map(({ operator, value, isNegated }) => ({
        isGroup: false,
        pair: [
          /^[A-Za-z]+$/.test(column.name) && !reserved.has(column.name) ? column.name : inUrl(column.name),
          `${isNegated ? 'not.' : ''}${operator}.${value}`,
        ] as [string, string],
        url: `${inUrl(column.name)}.${isNegated ? 'not.' : ''}${operator}.${quotedValue(value)}`,
        sql: (bind, alias) =>
          `${isNegated ? 'not ' : ''}(${alias}.${inSql(column.name)} ${operators[operator]} ${bind(value)}::${column.kind})`,
      })),
  );
const membership = (of: Table): fc.Arbitrary<Condition> =>
  columnOf(of).chain((column) =>
    fc.array(kinds[column.kind] as fc.Arbitrary<Value>, { minLength: 2, maxLength: 4 }).map((values) => ({
      isGroup: false,
      url: `${inUrl(column.name)}.in.(${values.map(quotedValue).join(',')})`,
      sql: (bind, alias) =>
        `${alias}.${inSql(column.name)} in (${values.map((value) => `${bind(value)}::${column.kind}`).join(', ')})`,
    })),
  );
const nullness = (of: Table): fc.Arbitrary<Condition> =>
  fc.record({ column: columnOf(of), isNegated: fc.boolean() }).map(({ column, isNegated }) => ({
    isGroup: false,
    url: `${inUrl(column.name)}.${isNegated ? 'not.is.null' : 'is.null'}`,
    sql: (_, alias) => `${alias}.${inSql(column.name)} is ${isNegated ? 'not ' : ''}null`,
  }));
const condition = (of: Table): fc.Arbitrary<Condition> =>
  fc.letrec<{ any: Condition; group: Condition }>((tie) => ({
    any: fc.oneof(
      { maxDepth: 3, depthSize: 'small' },
      comparison(of),
      comparison(of),
      membership(of),
      nullness(of),
      tie('group'),
    ),
    group: fc
      .record({
        joiner: fc.constantFrom('and', 'or'),
        isNegated: fc.boolean(),
        inner: fc.array(tie('any'), { minLength: 1, maxLength: 3 }),
      })
      .map(({ joiner, isNegated, inner }) => ({
        isGroup: true,
        url: `${isNegated ? 'not.' : ''}${joiner}(${inner.map(({ url }) => url).join(',')})`,
        sql: (bind: Parameters<Sql>[0], alias: string) =>
          `${isNegated ? 'not ' : ''}(${inner.map(({ sql }) => sql(bind, alias)).join(` ${joiner} `)})`,
      })),
  })).any;

interface Order {
  name: string;
  direction: 'asc' | 'desc' | null;
  nulls: 'first' | 'last' | null;
}
interface Question {
  conditions: Condition[];
  columns: Column[];
  orders: Order[];
  limit: number | null;
  offset: number;
}
const question = (of: Table): fc.Arbitrary<Question> =>
  fc.record({
    conditions: fc.array(condition(of), { maxLength: 3 }),
    columns: fc.subarray(of.columns),
    orders: fc.array(
      fc.record({
        name: columnOf(of).map(({ name }) => name),
        direction: fc.constantFrom('asc' as const, 'desc' as const, null),
        nulls: fc.constantFrom('first' as const, 'last' as const, null),
      }),
      { maxLength: 2 },
    ),
    limit: fc.option(fc.integer({ min: 0, max: 8 })),
    offset: fc.integer({ min: 0, max: 4 }),
  });

// ── The two results ──────────────────────────────────────────────────────────────────────────────────────────────────

/** The query parameters of a query on the rows at a path. */
function conditionUrl({ conditions, orders, limit, offset }: Question, path = ''): string[] {
  const pair = (key: string, value: string) => `${encodeURIComponent(key)}=${encodeURIComponent(value)}`;
  const order = [...orders, { name: 'id', direction: null, nulls: null }].map(
    ({ name, direction, nulls }) =>
      `${inUrl(name)}${direction ? `.${direction}` : ''}${nulls ? `.nulls${nulls}` : ''}`,
  );
  return [
    ...conditions.map(({ url, isGroup, pair: alone }) => {
      if (alone) return pair(`${path}${alone[0]}`, alone[1]);
      const [, joiner, inner] = isGroup ? (/^((?:not\.)?(?:and|or))(\(.*\))$/s.exec(url) ?? []) : [];
      return joiner && inner ? pair(`${path}${joiner}`, inner) : pair(`${path}and`, `(${url})`);
    }),
    pair(`${path}order`, order.join(',')),
    ...(limit === null ? [] : [pair(`${path}limit`, String(limit))]),
    ...(offset === 0 ? [] : [pair(`${path}offset`, String(offset))]),
  ];
}

const selectUrl = ({ columns }: Question) => ['id', ...columns.map(({ name }) => inUrl(name))].join(',');

/** The same query as SQL on the rows of `alias`, from `where` to the end. */
function conditionSql(
  { conditions, orders, limit, offset }: Question,
  alias: string,
  bind: Parameters<Sql>[0],
): string {
  const where = ['true', ...conditions.map(({ sql }) => sql(bind, alias))];
  const order = [...orders, { name: 'id', direction: null, nulls: null }].map(
    ({ name, direction, nulls }) =>
      `${alias}.${inSql(name)} ${direction ?? ''} ${nulls ? `nulls ${nulls}` : ''}`,
  );
  return `${where.join(' and ')} order by ${order.join(', ')} limit ${limit ?? 'all'} offset ${offset}`;
}

const selectSql = ({ columns }: Question, alias: string) =>
  [`${alias}.id`, ...columns.map(({ name }) => `${alias}.${inSql(name)}`)].join(', ');

class Bound {
  readonly values: unknown[] = [];
  readonly bind = (value: Value | string[]) => `$${this.values.push(value)}`;
}

describe.each(testDatabases())('answers on %s', (kindOfDatabase) => {
  let database: Database;
  beforeAll(async () => {
    database = await throwawayDatabase(kindOfDatabase, [platform]);
  });
  afterAll(() => database.close());

  async function make(generated: Model): Promise<void> {
    const define = ({ name, columns }: Table, extra: string) =>
      `create table gen.${inSql(name)} (id int primary key${extra}, ${columns
        .map((column) => `${inSql(column.name)} ${column.kind}`)
        .join(', ')});`;
    await database.execute(`
      drop schema if exists gen cascade; create schema gen;
      ${define(generated.parents, '')}
      ${define(generated.children, `, parent_id int references gen.${inSql(generated.parents.name)}`)}
      grant usage on schema gen to anon; grant select on all tables in schema gen to anon;`);
    const insert = async ({ name, columns, rows }: Table, before: (at: number) => Value[]) => {
      for (const [at, row] of rows.entries()) {
        const values = [...before(at), ...row];
        const names = before(at).length === 1 ? ['id'] : ['id', 'parent_id'];
        const targets = [...names, ...columns.map((column) => column.name)].map(inSql);
        const places = values.map((_, place) => `$${place + 1}`);
        await database.query(`insert into gen.${inSql(name)} (${targets}) values (${places})`, values);
      }
    };
    await insert(generated.parents, (at) => [at + 1]);
    await insert(generated.children, (at) => [at + 1, generated.parentOf[at] ?? null]);
  }

  const models = fc.sample(model, { numRuns: 3, seed });
  test.each(models.map((generated, at) => ({ at, generated })))(
    'equal those of plain SQL in generated schema $at',
    async ({ generated }) => {
      await make(generated);
      const service = await createDataService({ database, schemas: ['gen'] });
      const answerTo = async (path: string, query: string[], prefer = '') => {
        const url = `http://backend/rest/v1/${encodeURIComponent(path)}?${query.join('&')}`;
        const response = await service.fetch(new Request(url, { headers: prefer ? { prefer } : {} }), {
          claims: { role: 'anon' },
          address: null,
        });
        return {
          status: response.status,
          range: response.headers.get('content-range'),
          body: await response.json(),
        };
      };
      const { parents, children } = generated;
      try {
        await fc.assert(
          fc.asyncProperty(question(parents), async (query) => {
            const bound = new Bound();
            const { rows } = await database.query<{ rows: unknown; total: number }>(
              `select coalesce((select json_agg(x) from (select ${selectSql(query, 't')}
                from gen.${inSql(parents.name)} t where ${conditionSql(query, 't', bound.bind)}) x), '[]') as rows`,
              bound.values,
            );
            const answer = await answerTo(parents.name, [
              `select=${encodeURIComponent(selectUrl(query))}`,
              ...conditionUrl(query),
            ]);
            expect(answer.body).toEqual(rows[0]?.rows);
          }),
          { numRuns, seed },
        );
        await fc.assert(
          fc.asyncProperty(question(parents), async (query) => {
            const bound = new Bound();
            const unlimited = { ...query, limit: null, offset: 0 };
            const { rows } = await database.query<{ total: number }>(
              `select count(*) as total from (select from gen.${inSql(parents.name)} t
                where ${conditionSql(unlimited, 't', bound.bind)}) x`,
              bound.values,
            );
            const parameters = ['select=id', ...conditionUrl({ ...query, offset: 0 })];
            const answer = await answerTo(parents.name, parameters, 'count=exact');
            expect(answer.range?.split('/')[1]).toBe(String(rows[0]?.total));
          }),
          { numRuns: Math.ceil(numRuns / 4), seed },
        );
        const both = fc.record({
          outer: question(parents),
          inner: question(children),
          isInner: fc.boolean(),
        });
        await fc.assert(
          fc.asyncProperty(both, async ({ outer, inner, isInner }) => {
            const bound = new Bound();
            const embedded = `select json_agg(c) from (select ${selectSql(inner, 'c')} from gen.children c
              where c.parent_id = t.id and ${conditionSql(inner, 'c', bound.bind)}) c`;
            const { rows } = await database.query<{ rows: unknown }>(
              `select coalesce((select json_agg(x) from (
                select ${selectSql(outer, 't')}, coalesce(e.children, '[]') as children
                from gen.${inSql(parents.name)} t, lateral (${embedded}) e(children)
                where ${isInner ? 'e.children is not null' : 'true'} and ${conditionSql(outer, 't', bound.bind)}) x), '[]') as rows`,
              bound.values,
            );
            const select = `${selectUrl(outer)},children${isInner ? '!inner' : ''}(${selectUrl(inner)})`;
            const query = [
              `select=${encodeURIComponent(select)}`,
              ...conditionUrl(outer),
              ...conditionUrl(inner, 'children.'),
            ];
            expect((await answerTo(parents.name, query)).body).toEqual(rows[0]?.rows);
          }),
          { numRuns, seed },
        );
      } finally {
        await service.close();
      }
    },
  );
});
