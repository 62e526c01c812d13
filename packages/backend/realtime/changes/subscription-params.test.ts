// Parsing of subscriptions.
import { postgresChangesFilter } from '@supabase/realtime-js';
import { describe, expect, test } from 'vitest';
import { acceptBindings, readInterest } from './subscription-params.ts';

const filtersOf = (filter: string) =>
  readInterest({ schema: 'public', table: 'drinks', filter }).filters.map(
    ({ column, operator, value, isNegated }) => `${column} ${isNegated ? 'not ' : ''}${operator} ${value}`,
  );

describe('a filter', () => {
  test.each([
    ['id=eq.1', ['id eq 1']],
    ['id=not.eq.5', ['id not eq 5']],
    ['name=eq.a.b=c', ['name eq a.b=c']],
    ['id=gt.0,id=lt.100', ['id gt 0', 'id lt 100']],
    [' id=gt.0 , id=lt.100 ', ['id gt 0', 'id lt 100']],
    ['name=in.(a,b c,"d,e")', ['name in {"a","b c","d,e"}']],
    ['name=in.()', ['name in {}']],
    ['name=in.({a},"b\\"c")', ['name in {"{a}","b\\"c"}']],
    ['name=eq."a,b",id=eq.2', ['name eq a,b', 'id eq 2']],
    ['name=eq."say \\"hi\\" \\\\ there"', ['name eq say "hi" \\ there']],
    ['name=like.5" glass,id=eq.1', ['name like 5" glass', 'id eq 1']],
    ['name=match.^(a|b)$', ['name match ^(a|b)$']],
    ['name=eq.', ['name eq ']],
    ['', []],
    ['   ', []],
  ])('%s is understood', (filter, expected) => {
    expect(filtersOf(filter)).toEqual(expected);
  });

  test('written by the official builder is understood', () => {
    const filter = postgresChangesFilter()
      .eq('name', 'a,"b" (c) \\ d')
      .in('kind', ['x,y', 'z'])
      .not('gone_at', 'is', null)
      .build();
    expect(filtersOf(filter)).toEqual([
      'name eq a,"b" (c) \\ d',
      'kind in {"x,y","z"}',
      'gone_at not is null',
    ]);
  });

  test.each([
    ['name=foo.hey', 'Error parsing `filter` params: ["foo", "hey"]'],
    ['undefined', 'Error parsing `filter` params: ["undefined"]'],
    ['name=hey', 'Error parsing `filter` params: ["hey"]'],
    [
      'id=eq.1,,id=eq.2',
      'Error parsing `filter` params: filter must not contain empty segments (check for extra commas)',
    ],
    ['id=in.1,2', 'Error parsing `filter` params: `in` filter value must be wrapped by parentheses'],
  ])('%s is refused with the reason', (filter, message) => {
    expect(() => filtersOf(filter)).toThrow(message);
  });
});

describe('params', () => {
  test.each([
    [
      { event: 'insert', schema: 'public' },
      { event: 'INSERT', schema: 'public', table: '*' },
    ],
    [{ table: 'drinks' }, { event: '*', schema: 'public', table: 'drinks' }],
    [
      { event: '*', schema: '*', table: '*' },
      { event: '*', schema: '*', table: '*' },
    ],
    [
      { schema: 'public', table: 'drinks', select: ['name', 'id'] },
      { schema: 'public', table: 'drinks', select: ['id', 'name'] },
    ],
    [{ schema: 'public', table: 'drinks', select: [] }, { select: null }],
  ])('%j are understood', (params, expected) => {
    expect(readInterest(params)).toMatchObject(expected);
  });

  test.each([
    [
      { event: '*' },
      'No subscription params provided. Please provide at least a `schema` or `table` to subscribe to: %{"event" => "*"}',
    ],
    [{ schema: 'public', filter: 'id=eq.1' }, /^No subscription params provided\. /],
    [
      { schema: '*', table: 'drinks', select: ['id'] },
      'Column selection is not supported for wildcard subscriptions. Provide an explicit schema and table name.',
    ],
    [{ schema: 'public', table: 'drinks', select: 'id' }, /^Error parsing `select` params: expected a list/],
    [
      { schema: 'public', table: 'drinks', filter: `id=eq.${'"'.repeat(1_000_000)}` },
      'Error parsing `filter` params: filter is longer than 4000 characters',
    ],
    [
      { schema: 'public', table: 'drinks', filter: Array(11).fill('id=eq.1').join(',') },
      'Error parsing `filter` params: filter has more than 10 conditions',
    ],
  ])('%j are refused with the reason', (params, message) => {
    expect(() => readInterest(params)).toThrow(message);
  });

  test('get equal numbers for equal parameters in any order, and others otherwise', () => {
    const [a, b, c] = acceptBindings([
      { event: '*', schema: 'public' },
      { schema: 'public', event: '*' },
      { schema: 'public', event: 'INSERT' },
    ]);
    expect(a).toEqual({ event: '*', schema: 'public', id: expect.any(Number) });
    expect(a?.id).toBeGreaterThan(0);
    expect(b?.id).toBe(a?.id);
    expect(c?.id).not.toBe(a?.id);
  });
});
