// The grammar of the query string.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { DataError } from '../respond/data-error.ts';
import { pairsOf, parseQueryString } from './query-string.ts';

const conditionOf = (search: string) => parseQueryString(search).conditions[0];
const dataErrorOf = (search: string) => {
  try {
    parseQueryString(search);
  } catch (error) {
    if (error instanceof DataError) return error.body;
    throw error;
  }
  return null;
};

describe('select', () => {
  test('is every column when absent or empty', () => {
    expect(parseQueryString('').select).toEqual([{ kind: 'star' }]);
    expect(parseQueryString('select=').select).toEqual([{ kind: 'star' }]);
  });

  test('has aliases, casts, JSON paths and aggregates', () => {
    const field = { kind: 'field', alias: null, cast: null, aggregate: null, aggregateCast: null };
    expect(
      parseQueryString('select=id,a:b-c,"odd, name",d->e->>0,n::text,p.sum()::int,count()').select,
    ).toEqual([
      { ...field, field: { name: 'id', path: [] } },
      { ...field, alias: 'a', field: { name: 'b-c', path: [] } },
      { ...field, field: { name: 'odd, name', path: [] } },
      {
        ...field,
        field: {
          name: 'd',
          path: [
            { isText: false, key: 'e' },
            { isText: true, index: 0 },
          ],
        },
      },
      { ...field, field: { name: 'n', path: [] }, cast: 'text' },
      { ...field, field: { name: 'p', path: [] }, aggregate: 'sum', aggregateCast: 'int' },
      { ...field, field: null, aggregate: 'count' },
    ]);
  });

  test('embeds with hints and joins in either order, nested, spread and empty', () => {
    const embed = { kind: 'embed', alias: null, hint: null, isInner: false, isSpread: false };
    expect(parseQueryString('select=x:a!inner!h(...b(*)),a!h!left(),c(d())').select).toEqual([
      {
        ...embed,
        alias: 'x',
        name: 'a',
        hint: 'h',
        isInner: true,
        items: [{ ...embed, name: 'b', isSpread: true, items: [{ kind: 'star' }] }],
      },
      { ...embed, name: 'a', hint: 'h', items: [] },
      { ...embed, name: 'c', items: [{ ...embed, name: 'd', items: [] }] },
    ]);
  });

  test('ignores what follows a complete list', () => {
    expect(parseQueryString('select=a(b))"').select).toHaveLength(1);
  });

  test('reports the position of a syntax error', () => {
    expect(dataErrorOf('select=id,')).toMatchObject({
      code: 'PGRST100',
      message: '"failed to parse select parameter (id,)" (line 1, column 4)',
      details: 'unexpected end of input expecting field name (* or [a..z0..9_$])',
    });
    expect(dataErrorOf('select=a(b')?.message).toBe(
      '"failed to parse select parameter (a(b)" (line 1, column 4)',
    );
    expect(dataErrorOf(`select=${'a('.repeat(100)}`)?.code).toBe('PGRST100');
  });
});

describe('filters', () => {
  test('name an embed, a column and a JSON path', () => {
    expect(conditionOf('a.b.c->>d=eq.1')).toEqual({
      path: ['a', 'b'],
      condition: {
        kind: 'filter',
        field: { name: 'c', path: [{ isText: true, key: 'd' }] },
        isNegated: false,
        operation: { kind: 'comparison', operator: 'eq', quantifier: null, value: '1' },
      },
    });
  });

  test.each([
    ['a=not.gte.5', { isNegated: true, operation: { operator: 'gte', value: '5' } }],
    ['a=like(any).{x*,y}', { operation: { operator: 'like', quantifier: 'any', value: '{x*,y}' } }],
    ['a=in.(1,"b,c","d\\"e",f g)', { operation: { kind: 'in', values: ['1', 'b,c', 'd"e', 'f g'] } }],
    ['a=in.()', { operation: { kind: 'in', values: [] } }],
    ['a=is.NOT_NULL', { operation: { kind: 'is', value: 'not_null' } }],
    [
      'a=wfts(simple).x y',
      { operation: { kind: 'search', operator: 'wfts', language: 'simple', value: 'x y' } },
    ],
    ['a=eq.', { operation: { value: '' } }],
    ['a=eq.x.y,(z)', { operation: { value: 'x.y,(z)' } }],
    ['a=eq.a%2Bb+c%20d', { operation: { value: 'a+b c d' } }],
  ])('parse %s', (search, expected) => {
    expect(conditionOf(search)?.condition).toMatchObject(expected);
  });

  test.each([
    'a=1',
    'a=foo.1',
    'a=neq(any).{1}',
    'a=eq(some).1',
    'a=in.1',
    'a=in.(1',
    'a=is.maybe',
    'a..b=eq.1',
    '"a=eq.1',
  ])('reject %s', (search) => {
    expect(dataErrorOf(search)?.code).toBe('PGRST100');
  });

  test('group and nest', () => {
    expect(conditionOf('not.or=(a.eq.1,not.and(b.in.(1,2),"c,".eq."x)y"),d.cs.{1,2})')).toMatchObject({
      path: [],
      condition: {
        kind: 'group',
        joiner: 'or',
        isNegated: true,
        conditions: [
          { field: { name: 'a' }, operation: { value: '1' } },
          {
            joiner: 'and',
            isNegated: true,
            conditions: [
              { operation: { values: ['1', '2'] } },
              { field: { name: 'c,' }, operation: { value: 'x)y' } },
            ],
          },
          { operation: { operator: 'cs', value: '{1,2}' } },
        ],
      },
    });
    expect(conditionOf('a.or=(b.eq.1)')?.path).toEqual(['a']);
    expect(conditionOf('a.not.and=(b.eq.1)')).toMatchObject({ path: ['a'], condition: { isNegated: true } });
    expect(dataErrorOf('or=()')?.code).toBe('PGRST100');
    expect(dataErrorOf('or=(a.eq.1')?.message).toBe(
      '"failed to parse logic tree ((a.eq.1)" (line 1, column 10)',
    );
    expect(dataErrorOf(`or=${'(and'.repeat(100)}`)?.code).toBe('PGRST100');
  });
});

describe('orders and pages', () => {
  test('order by columns, JSON and embeds', () => {
    expect(parseQueryString('order=a.desc.nullslast,b->c,d(e).asc&x.order=f').orders).toEqual([
      {
        path: [],
        terms: [
          { embed: null, field: { name: 'a', path: [] }, direction: 'desc', nulls: 'last' },
          {
            embed: null,
            field: { name: 'b', path: [{ isText: false, key: 'c' }] },
            direction: null,
            nulls: null,
          },
          { embed: 'd', field: { name: 'e', path: [] }, direction: 'asc', nulls: null },
        ],
      },
      { path: ['x'], terms: [{ embed: null, field: { name: 'f', path: [] }, direction: null, nulls: null }] },
    ]);
    expect(dataErrorOf('order=a.upwards')?.message).toBe(
      '"failed to parse order (a.upwards)" (line 1, column 2)',
    );
  });

  test('ignore limits that are not numbers', () => {
    const { limits, offsets } = parseQueryString('limit=x&offset=&a.limit=3');
    expect([limits, offsets]).toEqual([[{ path: ['a'], limit: 3 }], []]);
  });
});

test('values without an operator are arguments of a function', () => {
  const query = parseQueryString('a=1&b=eq.2&c=not.a.thing&d=eq.', true);
  expect(query.arguments).toEqual([
    ['a', '1'],
    ['c', 'not.a.thing'],
  ]);
  expect(query.conditions).toHaveLength(2);
});

test('rejects names with a NUL in every position', () => {
  for (const search of [
    'select=%22a%00%22',
    'order=%22a%00%22',
    '%22a%00%22=eq.1',
    'a=eq.%00',
    'columns=%22%00%22',
  ]) {
    expect(dataErrorOf(search)?.code).toBe('PGRST100');
  }
});

test('accepts bytes that are not UTF-8', () => {
  expect([...pairsOf('a=%ff+b&c')]).toEqual([['a', '\ufffd b']]);
});

test('parses any text or rejects it with PGRST100', () => {
  const piece = fc.oneof(
    fc.constantFrom(
      'a',
      '"',
      '\\',
      '(',
      ')',
      ',',
      '.',
      '->',
      '->>',
      '::',
      '!',
      ':',
      '...',
      '*',
      '{',
      '}',
      'not.',
      'and',
      'eq.',
      '%',
    ),
    fc.string(),
  );
  const key = fc.constantFrom(
    'select',
    'order',
    'or',
    'and',
    'columns',
    'on_conflict',
    'a',
    'a.limit',
    'a.b->c',
  );
  const text = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(''));
  fc.assert(
    fc.property(key, text, (name, value) => {
      const error = dataErrorOf(`${name}=${encodeURIComponent(Buffer.from(value).toString())}`);
      expect(error?.code ?? 'PGRST100').toBe('PGRST100');
    }),
    { numRuns: 2000 },
  );
});

test('keeps a quoted name unchanged', () => {
  fc.assert(
    fc.property(
      fc.string({ minLength: 1, unit: 'grapheme' }).filter((name) => !name.includes('\0')),
      (name) => {
        const quoted = encodeURIComponent(`"${name.replace(/["\\]/g, '\\$&')}"`);
        const { select, conditions, orders } = parseQueryString(
          `select=${quoted}&x.${quoted}=eq.1&order=${quoted}.desc`,
        );
        expect([select[0], conditions[0]?.condition, orders[0]?.terms[0]]).toMatchObject([
          { field: { name } },
          { field: { name } },
          { field: { name } },
        ]);
      },
    ),
  );
});
