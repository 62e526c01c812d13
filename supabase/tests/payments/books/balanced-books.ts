// The invariants of the shop's books (scripts/databases/money-invariants.sql), checked after tests.
import type { Database, Session } from '@jani-juice/backend/database';
import { expect } from 'vitest';
import { readInvariants } from '../../../../scripts/databases/money-invariants.ts';
import { initialStock } from '../../shop-database.ts';

// The others need M-PESA's ledger, or hold only once every open payment could be queried.
const invariants = (await readInvariants()).filter(({ needsLedger, isAtRest }) => !needsLedger && !isAtRest);
const violations = `
  with stock as (select * from unnest($1::uuid[], $2::integer[]) as s (product_id, units))
  ${invariants
    .map(
      ({ title, sql }) =>
        `select '${title.replaceAll("'", "''")}' as invariant, v.subject, v.found from (${sql}) as v`,
    )
    .join(' union all ')}`;

// The embedded database takes several times as long to plan this as to run it, and some tests run it after every
// step: a function caches its plan.
const plannedOnce = `
  create schema tests;
  create function tests.find_violations(products uuid[], units integer[])
  returns table (invariant text, subject text, found text) language plpgsql
  set plan_cache_mode = force_generic_plan
  as $function$ begin return query ${violations}; end $function$`;
const planned = new WeakMap<Database, Promise<void>>();

async function queryFor(database: Database): Promise<string> {
  if (database.kind === 'postgresql') return violations;
  const made = planned.get(database) ?? database.execute(plannedOnce);
  planned.set(database, made);
  await made;
  return 'select invariant, subject, found from tests.find_violations($1, $2)';
}

/**
 * Expects every invariant of the books to hold.
 * @param stock units of each product before the first order. Default: those of `makeProduct`
 * @param session reads uncommitted changes of this session. This function must have run on the database before, because the
 * embedded database does nothing else while a transaction is open
 */
export async function expectBalancedBooks(
  database: Database,
  {
    stock = initialStock(database),
    session = database,
  }: { stock?: ReadonlyMap<string, number>; session?: Pick<Session, 'query'> } = {},
): Promise<void> {
  const { rows } = await session.query(await queryFor(database), [
    `{${[...stock.keys()].join(',')}}`,
    `{${[...stock.values()].join(',')}}`,
  ]);
  expect(rows).toEqual([]);
}

/** Returns the days whose figures differ from the sums of their rows. */
export async function findWrongFigures(database: Database): Promise<unknown[]> {
  const figures = invariants.find(({ title }) => title.startsWith('the figures of a day'));
  if (!figures) throw new Error('no invariant of the figures of a day');
  return (await database.query(figures.sql)).rows;
}
