import { expect, test } from 'vitest';
import type { SchemaCache } from '../schema/schema-types.ts';
import { PlanCache, type PlannedRequest, shapeOf } from './plan-cache.ts';

const parts = (search: string, headers: Record<string, string> = {}, method = 'GET', body = '') => ({
  method,
  path: '/books',
  search,
  headers: new Headers(headers),
  body,
});
const planKeyOf = (of: ReturnType<typeof parts>) => shapeOf(of).key;
const schema = {} as SchemaCache;
const planned = (sql: string) => ({ statement: { sql, parameters: [] } }) as unknown as PlannedRequest;

test('requests with different plans have different keys', () => {
  const requests = [
    parts('id=eq.1'),
    parts('id=gt.1'),
    parts('id=is.null'),
    parts('id=is.true'),
    parts('id=in.(1)'),
    parts('id=in.(2)'),
    parts('limit=1'),
    parts('limit=2'),
    parts('select=eq.1'),
    parts('select=eq.2'),
    parts('a.order=eq.1'),
    parts('a.order=eq.2'),
    parts('id=eq(any).{1}'),
    parts('id=eq(any).{2}'),
    parts('id=eq.1', {}, 'HEAD'),
    parts('id=eq.1', { accept: 'text/csv' }),
    parts('id=eq.1', { prefer: 'text/csv' }),
    parts('id=eq.1', { range: '0-1' }),
    parts('id=eq.1', { 'accept-profile': 'other' }),
  ];
  expect(new Set(requests.map(planKeyOf)).size).toBe(requests.length);
  expect(planKeyOf(parts('id=eq.1', { 'user-agent': 'x' }))).toBe(planKeyOf(parts('id=eq.1')));
});

test('filter values are not part of the key and are inserted into the statement again', () => {
  const first = shapeOf(parts('id=eq.1&label=not.like.a*b+c%26&order=id'));
  const second = shapeOf(parts('id=eq.x.y=z&label=not.like.&order=id'));
  expect(second.key).toBe(first.key);
  const [, id, label] = /^id=eq\.(.*)&label=not\.like\.(.*)&order=id$/.exec(first.parts.search) ?? [];
  const statement = { sql: 'sql', parameters: [label ?? '', 'constant', id ?? '', id ?? ''] };
  expect(first.fill(statement)).toEqual({ sql: 'sql', parameters: ['a%b c&', 'constant', '1', '1'] });
  expect(second.fill(statement).parameters).toEqual(['', 'constant', 'x.y=z', 'x.y=z']);
});

test('calls with the same argument names share a plan, and their values are inserted again', () => {
  const call = (body: string, headers: Record<string, string> = {}) => ({
    ...parts('select=id', headers, 'POST', body),
    path: '/rpc/either',
  });
  const first = shapeOf(call('{"a": 1, "b": "x"}'));
  const second = shapeOf(call(' {"a":{"c":[2]},"b":null}'));
  expect(first.key).not.toBeNull();
  expect(second.key).toBe(first.key);
  const { body } = second.parts;
  expect(Object.keys(JSON.parse(body))).toEqual(['a', 'b']);
  const statement = { sql: 'sql', parameters: [`[${body}]`, body, 'constant'] };
  expect(first.fill(statement).parameters).toEqual([
    '[{"a": 1, "b": "x"}]',
    '{"a": 1, "b": "x"}',
    'constant',
  ]);
  expect(second.fill(statement).parameters).toEqual([
    '[ {"a":{"c":[2]},"b":null}]',
    ' {"a":{"c":[2]},"b":null}',
    'constant',
  ]);
  const keys = [
    call('{"a":1}'),
    call('{"b":1}'),
    call('{"a":1,"b":1}'),
    call(''),
    call('{"a":1}', { 'content-profile': 'other' }),
    call('{"a":1}', { prefer: 'return=minimal' }),
  ].map((request) => shapeOf(request).key);
  expect(new Set([...keys, first.key]).size).toBe(6);
});

test('changes of tables, and bodies that are no JSON object, are not cached', () => {
  for (const [path, body, type] of [
    ['/books', '{"a":1}', 'application/json'],
    ['/rpc/either', '[{"a":1}]', 'application/json'],
    ['/rpc/either', '{"a":', 'application/json'],
    ['/rpc/either', 'null', 'application/json'],
    ['/rpc/either', 'a=1', 'application/x-www-form-urlencoded'],
    ['/rpc/either', '{"a":1}', 'text/plain'],
  ] as const) {
    const request = { ...parts('', { 'content-type': type }, 'POST', body), path };
    expect(shapeOf(request).key, body).toBeNull();
    expect(shapeOf(request).parts).toBe(request);
  }
});

test('arguments of functions and rejected values stay in the key', () => {
  const call = { ...parts('a=eq.1'), path: '/rpc/either' };
  expect(shapeOf(call).parts).toBe(call);
  const refused = parts('id=eq.%00');
  expect(shapeOf(refused).parts).toBe(refused);
  const costly = parts('label=match.(a{1,255}){1,255}');
  expect(shapeOf(costly).parts).toBe(costly);
});

test('mutations and very long requests are not cached', () => {
  expect(planKeyOf(parts('', {}, 'POST', '{}'))).toBeNull();
  expect(planKeyOf(parts(`id=in.(${'1,'.repeat(2000)}1)`))).toBeNull();
  expect(planKeyOf(parts('', { accept: 'text/csv,'.repeat(1000) }))).toBeNull();
  expect(new PlanCache().find(null, schema)).toBeNull();
});

test('a schema change removes every plan', () => {
  const cache = new PlanCache();
  cache.store('a', schema, planned('one'));
  expect(cache.find('a', schema)).toEqual(planned('one'));
  const changed = {} as SchemaCache;
  expect(cache.find('a', changed)).toBeNull();
  cache.store('b', changed, planned('two'));
  expect(cache.find('a', changed)).toBeNull();
  expect(cache.find('b', changed)).toEqual(planned('two'));
});

test('the least recently used plan is evicted', () => {
  const cache = new PlanCache();
  for (let at = 0; at < 500; at++) cache.store(String(at), schema, planned(String(at)));
  expect(cache.find('0', schema)).not.toBeNull();
  cache.store('new', schema, planned('new'));
  expect(cache.find('1', schema)).toBeNull();
  expect(cache.find('0', schema)).not.toBeNull();
});
