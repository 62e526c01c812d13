// From a request to a statement, without a database.
import { describe, expect, test } from 'vitest';
import { parseRequest } from '../parse/parse.ts';
import { planRequest } from '../plan/plan.ts';
import type {
  Column,
  DatabaseFunction,
  Relation,
  Relationship,
  SchemaCache,
} from '../schema/schema-types.ts';
import { writeEstimate, writeStatement } from './sql.ts';

const columns = (types: Record<string, string>) =>
  new Map<string, Column>(
    Object.entries(types).map(([name, type]) => [
      name,
      {
        name,
        type,
        kind: type === 'jsonb' ? 'json' : 'other',
        defaultExpression: name === 'id' ? '42' : null,
        representation: null,
      },
    ]),
  );
const table = (
  name: string,
  types: Record<string, string>,
  relationships: Relationship[] = [],
): Relation => ({
  schema: 'public',
  name,
  isView: false,
  isInsertable: true,
  isUpdatable: true,
  isDeletable: true,
  columns: columns(types),
  primaryKey: ['id'],
  computedColumns: new Map(),
  relationships,
  mediaHandlers: new Map(),
});
const toOwner: Relationship = {
  cardinality: 'many-to-one',
  origin: { schema: 'public', name: 'pets' },
  foreign: { schema: 'public', name: 'owners' },
  name: 'pets_owner_fkey',
  columns: [['owner_id', 'id']],
  isForeignView: false,
  holdsKey: true,
  junction: null,
  computedBy: null,
};
const toPets: Relationship = {
  ...toOwner,
  cardinality: 'one-to-many',
  origin: toOwner.foreign,
  foreign: toOwner.origin,
  holdsKey: false,
  columns: [['id', 'owner_id']],
};
const feed: DatabaseFunction = {
  schema: 'public',
  name: 'feed',
  parameters: [{ name: 'amount', type: 'integer', hasDefault: false, isVariadic: false }],
  isVolatile: true,
  isSet: false,
  settings: new Map(),
  returns: { kind: 'scalar', isRecord: false, handler: null },
};
const cache: SchemaCache = {
  relations: new Map([
    [
      'public',
      new Map([
        [
          'pets',
          table('pets', { id: 'integer', 'odd"name': 'text', details: 'jsonb', owner_id: 'integer' }, [
            toOwner,
          ]),
        ],
        ['owners', table('owners', { id: 'integer', name: 'text' }, [toPets])],
      ]),
    ],
  ]),
  functions: new Map([['public', new Map([['feed', [feed]]])]]),
  types: new Map([['text', 'text']]),
  mediaHandlers: new Map(),
  geoJsonOf: null,
  roleSettings: new Map(),
};

function planOf(method: string, path: string, search: string, body = '', prefer = '') {
  const headers = new Headers(prefer ? { prefer } : {});
  const request = parseRequest({ method, path, search, headers, body }, { schemas: ['public'] });
  const plan = planRequest(request, cache, {
    maxRows: 100,
    maxAnswerBytes: Number.POSITIVE_INFINITY,
    allowsRepeats: true,
    maxEmbedDepth: 3,
    allowsCircles: true,
    allowsAggregates: false,
    allowsPlan: false,
    openApiMode: 'disabled',
  });
  if (plan.kind === 'options' || plan.kind === 'description') throw new Error('no statement');
  return plan;
}
const write = (...request: Parameters<typeof planOf>) => {
  const { sql, parameters } = writeStatement(planOf(...request));
  return { sql: sql.replace(/\s+/g, ' '), parameters };
};

describe('a statement', () => {
  test('binds every value of the client as a parameter', () => {
    const marks = ['MARKa', 'MARKb', 'MARKc', 'MARKd', 'MARKe', 'MARKf', 'MARKg'];
    const { sql, parameters } = write(
      'GET',
      '/pets',
      'select=id,details->MARKa->>MARKb&id=eq.MARKc&id=in.(MARKd,1)&or=(id.fts(MARKe).MARKf,id.like.*MARKg)&limit=7&offset=8',
    );
    expect(sql.replace('as "MARKb"', '')).not.toContain('MARK');
    for (const mark of marks) expect(parameters.join(' ')).toContain(mark);
    expect(parameters).toEqual(expect.arrayContaining(['7', '8', '{"MARKd","1"}', '%MARKg']));
  });

  test('quotes columns and output names', () => {
    const { sql } = write('GET', '/pets', `select=${encodeURIComponent('"a\\"; --":"odd\\"name"')}`);
    expect(sql).toContain(`select t."odd""name" as "a""; --" from "public"."pets" as t`);
  });

  test('reads in one select, with embeds joined laterally', () => {
    expect(write('GET', '/pets', 'select=id,owners(name)&order=owners(name).desc').sql).toContain(
      'select t."id" as "id", e0.found as "owners" from "public"."pets" as t' +
        ' left join lateral (select (select row_to_json(_row.*) from (select t1."name" as "name" ) as _row) as found,' +
        ' t1."name" as order0 from "public"."owners" as t1 where t."owner_id" = t1."id") as e0 on true' +
        ' order by e0.order0 desc limit $1::int8',
    );
  });

  test('counts without embedding', () => {
    const { sql } = write('GET', '/pets', 'select=id,owners!inner(name)&owners.name=eq.x', '', 'count=exact');
    expect(sql).toContain(
      '(select count(*) from "public"."pets" as t where exists (select from "public"."owners" as t2' +
        ' where t."owner_id" = t2."id" and t2."name" = $3)) as total',
    );
    const plan = planOf('GET', '/pets', 'id=gt.1&limit=3', '', 'count=planned');
    expect(plan.kind === 'read' && writeEstimate(plan)).toEqual({
      sql: 'explain (format json) select 1 from "public"."pets" as t where t."id" > $1',
      parameters: ['1'],
    });
  });

  test('never returns more rows than allowed', () => {
    expect(write('GET', '/pets', '').parameters).toEqual(['100']);
    expect(write('GET', '/pets', 'limit=1000').parameters).toEqual(['100']);
    expect(write('GET', '/pets', 'limit=5').parameters).toEqual(['5']);
    expect(write('GET', '/owners', 'select=pets(id)&pets.limit=1000').parameters).toEqual(['100', '100']);
    expect(
      write('PATCH', '/owners', 'select=pets(id)', '{"id":1}', 'return=representation').parameters,
    ).toEqual(['{"id":1}']);
  });

  test('is rejected for a JSON path of more than 100 steps', () => {
    expect(() => write('GET', '/pets', `select=id${'->a'.repeat(100)}`)).not.toThrow();
    expect(() => write('GET', '/pets', `select=id${'->a'.repeat(101)}`)).toThrow('is too long');
  });

  test('returns only requested columns of a mutation', () => {
    expect(write('DELETE', '/pets', 'id=eq.1').sql).toContain('returning 1 as one)');
    const shown = write('DELETE', '/pets', 'select=id,owners(name)', '', 'return=representation');
    expect(shown.sql).toContain('returning t."id", t."owner_id")');
  });

  test('binds the rows of a body as one parameter', () => {
    const { sql, parameters } = write('POST', '/pets', '', '[{"id":1,"owner_id":2}]');
    expect(parameters).toEqual(['[{"id":1,"owner_id":2}]']);
    expect(sql).toContain(
      'insert into "public"."pets" as t ("id", "owner_id") select "id", "owner_id" from' +
        ' (select * from json_to_recordset($1::json) as given("id" integer, "owner_id" integer)) as p returning 1 as one',
    );
    const defaults = write('POST', '/pets', '', '{"id":1}', 'missing=default');
    expect(defaults.sql).toContain(
      'case when element ? $2::text then given."id" else fallback."id" end as "id"',
    );
    expect(write('POST', '/pets', '', '{}').sql).toContain('default values');
    expect(write('POST', '/pets', '', '[]').sql).toContain('where false');
  });

  test('passes arguments by name with their types', () => {
    expect(write('POST', '/rpc/feed', '', '{"amount":"1; drop"}').sql).toContain(
      'from (select * from json_to_recordset($1::json) as given("amount" integer) limit 1) as p, lateral "public"."feed"("amount" => p."amount") as t(value)',
    );
    expect(write('GET', '/rpc/feed', 'amount=3')).toMatchObject({ parameters: ['3', '100'] });
  });
});

test('rejects a name that is not in the schema cache before writing a statement', () => {
  for (const search of [
    'select=nope',
    'nope=eq.1',
    'order=nope',
    'or=(nope.eq.1)',
    'select=owners(nope)',
    'select=owners(id)&owners.nope=eq.1',
    'select=owners(id)&owners.order=nope',
    'select=owners(id)&order=owners(nope)',
    'select=id::nope',
    'select=nope(id)',
  ]) {
    expect(() => planOf('GET', '/pets', search), search).toThrow(/nope/);
  }
  for (const search of ['columns=nope', 'on_conflict=nope']) {
    expect(() => planOf('POST', '/pets', search, '{}', 'resolution=merge-duplicates'), search).toThrow(
      /nope/,
    );
  }
  expect(() => planOf('POST', '/pets', '', '{"nope":1}')).toThrow(/nope/);
  expect(() => planOf('GET', '/rpc/nope', '')).toThrow(/nope/);
});
