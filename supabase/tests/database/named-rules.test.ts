// Rules that have a name in the schemas are stated there alone.
import { expect, test } from 'vitest';
import { readSchemas } from '../../../scripts/databases/schema-files.ts';

const schemas = readSchemas();
const stateGroups = '1_catalogue/01b_states.sql';
const textOf = (file: string) => schemas.find(({ path }) => path === file)?.sql ?? '';
/** Statements of the schemas but checks and indexes: those keep their own text, so that no changed function makes them wrong. */
const statements = schemas
  .filter(({ path }) => path !== stateGroups)
  .flatMap(({ path, sql }) =>
    sql
      .replaceAll(/^create (?:unique )?index [^;]*;|check \(.*\)|^\s*(?:method = 'by_hand' or .*)$/gm, '')
      .split('\n')
      .map((line, index) => ({ place: `${path}:${index + 1}`, line })),
  );
const found = (pattern: RegExp) =>
  statements.filter(({ line }) => pattern.test(line)).map(({ place, line }) => `${place} ${line.trim()}`);

const states = textOf(stateGroups);
const valuesIn = (list: string) => [...list.matchAll(/'(\w+)'/g)].map(([, value = '']) => value).sort();
const groups = [...states.matchAll(/create function private\.(\w+)\(\w+ text\)[^;]*? in \(([^)]*)\);/g)].map(
  ([, name = '', list = '']) => ({ name, values: valuesIn(list) }),
);

/** Lists of states that are written out, such as `status in ('sent', 'unknown')`. */
const listsIn = (line: string) =>
  [...line.matchAll(/status (?:not )?in \(((?:'\w+'(?:, )?)+)\)/g)].map(([, list = '']) =>
    valuesIn(list).join(),
  );

test('every group of states is read, and no two groups are the same', () => {
  expect(groups.length).toBe(states.split('create function').length - 1);
  expect(new Set(groups.map(({ values }) => values.join())).size).toBe(groups.length);
});

test('a group of states with a name is not written out', () => {
  const named = new Map(groups.map(({ name, values }) => [values.join(), name]));
  const again = statements.flatMap(({ place, line }) =>
    listsIn(line).flatMap((list) => (named.has(list) ? [`${place} is private.${named.get(list)}`] : [])),
  );
  expect(again).toEqual([]);
});

test('a group of states that several places need has a name', () => {
  const lists = statements.flatMap(({ place, line }) =>
    [...new Set(listsIn(line))].map((list) => ({ list, place })),
  );
  const repeated = lists.filter(({ list, place }) =>
    lists.some((other) => other.list === list && other.place !== place),
  );
  expect(repeated.map(({ list, place }) => `${place} ${list}`)).toEqual([]);
});

test.each([
  ['the removal of accents', /àáâ/, 'private.without_accents'],
  ['a wait that doubles', /power\(2/, 'private.back_off'],
  ['the length of a reservation', /mins => s\.reservation_minutes/, 'private.reservation'],
  ['the limit of a reservation', /2 \* (?:minutes|make_interval|reservation)/, 'private.longest_reservation'],
  ['a payment without a prompt', /'unresolved', 'till'/, 'private.add_till_payment'],
  [
    'what a search reads of an order',
    /split_part\(\w+\.tracking_number, '-', 3\) \|\|/,
    'private.order_text',
  ],
])('%s is written once', (_, pattern, home) => {
  const places = found(pattern);
  expect(places).toHaveLength(1);
  expect(textOf(places[0]?.split(':')[0] ?? '')).toContain(`create function ${home}(`);
});

test('lists and rules that come back are found', () => {
  const line = "where r.status not in ('failed', 'withdrawn') and p.status in ('initiating', 'processing')";
  expect(listsIn(line)).toEqual(['failed,withdrawn', 'initiating,processing']);
  expect(groups.map(({ values }) => values.join())).toEqual(expect.arrayContaining(listsIn(line)));
});
