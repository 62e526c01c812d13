import { expect, test } from 'vitest';
import { parseRequest } from './parse.ts';
import { checkSize, checkUrlLength, type SizeLimits } from './request-size.ts';

const limits: SizeLimits = {
  maxUrlLength: 1000,
  maxBodyBytes: 1000,
  maxKeys: 4,
  maxInsertedRows: 1,
  maxSelected: 4,
  maxEmbeds: 2,
  maxFilters: 4,
  maxListMembers: 4,
  maxOrders: 2,
  maxOffset: 100,
  maxSearchLength: 30,
  maxSearchWords: 3,
  maxPatternStates: 200,
  maxRows: 1000,
  maxAnswerBytes: 1000,
  allowsRepeats: true,
};

const cost = (search: string, { method = 'GET', path = '/pets', body = '', headers = {} } = {}) => {
  const parts = { method, path, search, headers: new Headers(headers), body };
  return checkSize(parseRequest(parts, { schemas: ['public'] }), limits);
};
const times = (count: number, each: string, separator = ',') => Array(count).fill(each).join(separator);

test.each([
  ['embeds', (n: number) => `select=${times(n, 'owners(id)')}`, 2, 'too many embedded resources'],
  [
    'nested embeds',
    (n: number) => `select=${'a('.repeat(n)}id${')'.repeat(n)}`,
    2,
    'too many embedded resources',
  ],
  ['selected columns', (n: number) => `select=${times(n, 'name')}`, 4, 'too many selected columns'],
  [
    'columns of an embed',
    (n: number) => `select=id,owners(${times(n - 1, 'name')})`,
    4,
    'too many selected columns',
  ],
  ['filters', (n: number) => times(n, 'id=eq.1', '&'), 4, 'too many filters'],
  [
    'filters in groups',
    (n: number) => `id=eq.1&or=(id.eq.2,and(${times(n - 2, 'id.eq.1')}))`,
    4,
    'too many filters',
  ],
  [
    'filters of embeds',
    (n: number) => `select=owners(id)&${times(n, 'owners.id=eq.1', '&')}`,
    4,
    'too many filters',
  ],
  ['values of any', (n: number) => `name=ilike(any).{${times(n, 'x*')}}`, 4, 'too many filters'],
  ['list members', (n: number) => `id=in.(${times(n, '1')})`, 4, 'too many values in lists'],
  ['orders', (n: number) => `order=${times(n, 'id')}`, 2, 'too many columns to order by'],
  ['words of a search', (n: number) => `name=plfts.${times(n, 'a', '+')}`, 3, 'tsquery is too large'],
  ['words of compound words', (n: number) => `name=fts.${times(n, 'a', '-')}`, 3, 'tsquery is too large'],
  ['words of several searches', (n: number) => times(n, 'name=wfts.a', '&'), 3, 'tsquery is too large'],
  ['characters of a search', (n: number) => `name=fts.${'a'.repeat(n)}`, 30, 'tsquery is too large'],
  ['rows to skip', (n: number) => `offset=${n}`, 100, 'range not satisfiable'],
])('limits %s', (_what, search, most, message) => {
  expect(() => cost(search(most))).not.toThrow();
  expect(() => cost(search(most + 1))).toThrow(message);
});

test.each([
  ['a pattern', `id=match.${encodeURIComponent('((a{1,200}){1,200}){1,200}')}`],
  ['a back reference', `or=(id.eq.1,not.and(id.imatch."(.*)*\\\\1"))`],
  ['a pattern of an embed', 'select=id,owners(name)&owners.name=match(any).{a{201}}'],
  ['patterns together', 'or=(id.match."a{90}",id.match."b{90}",id.match."c{90}")'],
])('limits the regular expressions of %s', (_what, search) => {
  expect(() => cost(search)).toThrow('regular expression is too complex');
  expect(() => cost('id=match.^r.x$')).not.toThrow();
});

test('limits the rows of an insert in every format', () => {
  const insert = (body: string, type = 'application/json', method = 'POST') =>
    cost('', { method, body, headers: { 'content-type': type } });
  expect(() => insert('{"id":1}')).not.toThrow();
  expect(() => insert('[{"id":1}]')).not.toThrow();
  expect(() => insert('[{"id":1},{"id":2}]')).toThrow('too many rows');
  expect(() => insert('id\n1\n2\n', 'text/csv')).toThrow('too many rows');
  expect(() => insert('[{"id":1},{"id":2}]', 'application/json', 'PUT')).toThrow('too many rows');
});

test('limits the keys of a row and the arguments of a function', () => {
  const body = (count: number) =>
    JSON.stringify(Object.fromEntries(Array.from({ length: count }, (_, n) => [`k${n}`, 1])));
  for (const path of ['/pets', '/rpc/feed']) {
    expect(() => cost('', { method: 'POST', path, body: body(4) })).not.toThrow();
    expect(() => cost('', { method: 'POST', path, body: body(5) })).toThrow('too many columns or arguments');
  }
  expect(() => cost(times(5, 'a=1', '&'), { path: '/rpc/feed' })).toThrow('too many columns or arguments');
});

test('counts an array as one argument of a function', () => {
  expect(() => cost('', { method: 'POST', path: '/rpc/feed', body: '[{"id":1},{"id":2}]' })).not.toThrow();
});

test('limits the length of the URL', () => {
  expect(() => checkUrlLength(1000, limits)).not.toThrow();
  expect(() => checkUrlLength(1001, limits)).toThrow('URL is too long');
});

test('a larger request has a higher cost', () => {
  const plain = cost('id=eq.1');
  expect(plain).toBeLessThan(2);
  for (const more of [
    cost('select=owners(id)&id=eq.1'),
    cost('name=plfts.a+b'),
    cost('id=match.a{100}'),
    cost('id=eq.1', { headers: { prefer: 'count=exact' } }),
    cost('', { path: '/' }),
    cost('', { method: 'POST', path: '/rpc/feed', body: '{}' }),
  ]) {
    expect(more).toBeGreaterThan(plain);
  }
});
