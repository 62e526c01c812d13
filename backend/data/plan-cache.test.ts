import { expect, test } from 'vitest';
import { PlanCache, type PlannedRequest, planKeyOf } from './plan-cache.ts';
import type { SchemaCache } from './schema-cache.ts';

const parts = (search: string, headers: Record<string, string> = {}, method = 'GET', body = '') => ({
  method,
  path: '/books',
  search,
  headers: new Headers(headers),
  body,
});
const schema = {} as SchemaCache;
const planned = (sql: string) => ({ statement: { sql, parameters: [] } }) as unknown as PlannedRequest;

test('a key tells apart whatever leads to another plan', () => {
  const requests = [
    parts('id=eq.1'),
    parts('id=eq.2'),
    parts('id=eq.1', {}, 'HEAD'),
    parts('id=eq.1', { accept: 'text/csv' }),
    parts('id=eq.1', { prefer: 'text/csv' }),
    parts('id=eq.1', { range: '0-1' }),
    parts('id=eq.1', { 'accept-profile': 'other' }),
  ];
  expect(new Set(requests.map(planKeyOf)).size).toBe(requests.length);
  expect(planKeyOf(parts('id=eq.1', { 'user-agent': 'x' }))).toBe(planKeyOf(parts('id=eq.1')));
});

test('changes and very long requests are not remembered', () => {
  expect(planKeyOf(parts('', {}, 'POST', '{}'))).toBeNull();
  expect(planKeyOf(parts(`id=in.(${'1,'.repeat(2000)}1)`))).toBeNull();
  expect(new PlanCache().find(null, schema)).toBeNull();
});

test('a changed schema forgets every plan', () => {
  const cache = new PlanCache();
  cache.keep('a', schema, planned('one'));
  expect(cache.find('a', schema)).toEqual(planned('one'));
  const changed = {} as SchemaCache;
  expect(cache.find('a', changed)).toBeNull();
  cache.keep('b', changed, planned('two'));
  expect(cache.find('a', changed)).toBeNull();
  expect(cache.find('b', changed)).toEqual(planned('two'));
});

test('the plan that was used longest ago makes room', () => {
  const cache = new PlanCache();
  for (let at = 0; at < 500; at++) cache.keep(String(at), schema, planned(String(at)));
  expect(cache.find('0', schema)).not.toBeNull();
  cache.keep('new', schema, planned('new'));
  expect(cache.find('1', schema)).toBeNull();
  expect(cache.find('0', schema)).not.toBeNull();
});
