// No function runs with planner switches of its caller that it does not set itself (docs/decisions/database-speed.md).

import type { Database } from '@jani-juice/backend/database';
import { testDatabases, throwawayDatabase } from '@jani-juice/backend/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { shopMigrations } from '../../../scripts/databases/shop-migrations.ts';

interface Routine {
  name: string;
  body: string;
  /** Switches that forbid a kind of plan, by name. */
  switches: string[];
}

let database: Database;
beforeAll(async () => {
  database = await throwawayDatabase(testDatabases().at(-1) ?? 'pglite', shopMigrations);
});
afterAll(() => database.close());

// Without sequential scans and JIT any plan of the shop is right, and a generic plan is what a session caches anyway.
const inheritable = ['enable_seqscan', 'jit'];

async function readRoutines(): Promise<Map<string, Routine[]>> {
  const { rows } = await database.query<Routine>(
    `select format('%s.%s', n.nspname, p.proname) as name,
       regexp_replace(coalesce(pg_get_function_sqlbody(p.oid), p.prosrc), '--[^\n]*', '', 'g') as body,
       array(
         select split_part(setting, '=', 1) from unnest(p.proconfig) as setting
         where setting like 'enable\\_%' and split_part(setting, '=', 1) <> all ($1::text[])
       ) as switches
     from pg_proc as p join pg_namespace as n on n.oid = p.pronamespace
     where n.nspname in ('public', 'private')`,
    [`{${inheritable.join(',')}}`],
  );
  const routines = new Map<string, Routine[]>();
  for (const row of rows) routines.set(row.name, [...(routines.get(row.name) ?? []), row]);
  return routines;
}

/** Functions of the triggers of each table. */
async function readTriggers(): Promise<Map<string, string[]>> {
  const { rows } = await database.query<{ table: string; routine: string }>(
    `select format('%s.%s', tn.nspname, c.relname) as table, format('%s.%s', pn.nspname, p.proname) as routine
     from pg_trigger as t
     join pg_class as c on c.oid = t.tgrelid join pg_namespace as tn on tn.oid = c.relnamespace
     join pg_proc as p on p.oid = t.tgfoid join pg_namespace as pn on pn.oid = p.pronamespace
     where not t.tgisinternal`,
  );
  const triggers = new Map<string, string[]>();
  for (const { table, routine } of rows) triggers.set(table, [...(triggers.get(table) ?? []), routine]);
  return triggers;
}

/** What a function calls: functions by name, and triggers of the tables that it changes. */
const callsOf = ({ body }: Routine, routines: Map<string, unknown>, triggers: Map<string, string[]>) => {
  const called = [...body.matchAll(/\b((?:public|private)\.\w+)\s*\(/g)].map(([, name = '']) => name);
  const changed = [...body.matchAll(/\b(?:insert into|update|delete from)\s+((?:public|private)\.\w+)/g)];
  return [
    ...called.filter((name) => routines.has(name)),
    ...changed.flatMap(([, table = '']) => triggers.get(table) ?? []),
  ];
};

const readsTables = ({ body }: Routine) =>
  /\b(?:from|join|into|update)\s+(?:public|private|auth)\.\w+\b(?!\s*\()/.test(body) ||
  /\bexecute\b/.test(body);

test('a function with planner switches calls only functions that set the same switches, or read no table', async () => {
  const [routines, triggers] = [await readRoutines(), await readTriggers()];
  const reads = new Map<string, boolean>();
  const doesRead = (name: string): boolean => {
    const known = reads.get(name);
    if (known !== undefined) return known;
    // Ends the recursion; what a function reads itself counts anyway.
    reads.set(name, false);
    const answer = (routines.get(name) ?? []).some(
      (routine) => readsTables(routine) || callsOf(routine, routines, triggers).some(doesRead),
    );
    reads.set(name, answer);
    return answer;
  };
  const inherited = [...routines.values()].flat().flatMap((routine) =>
    callsOf(routine, routines, triggers)
      .filter((name) => name !== routine.name && doesRead(name))
      .flatMap((name) => (routines.get(name) ?? []).map((called) => ({ name, called })))
      .flatMap(({ name, called }) =>
        routine.switches
          .filter((setting) => !called.switches.includes(setting))
          .map((setting) => `${name} inherits ${setting} of ${routine.name}`),
      ),
  );
  expect(inherited).toEqual([]);
});

test('finds a switch that a called function or a trigger inherits', async () => {
  const changes = `
    create function private.reads_orders() returns bigint language sql set search_path = '' as 'select count(*) from public.orders';
    create function private.calls() returns bigint language sql set search_path = '' set enable_sort = off
      as 'select private.reads_orders()'`;
  await database.execute(changes);
  const routines = await readRoutines();
  const calling = routines.get('private.calls')?.[0];
  expect(calling?.switches).toEqual(['enable_sort']);
  expect(callsOf(calling as Routine, routines, new Map())).toEqual(['private.reads_orders']);
  expect(readsTables(routines.get('private.reads_orders')?.[0] as Routine)).toBe(true);
  const changing = { name: 'x', body: 'update public.orders set status = status', switches: [] };
  expect(callsOf(changing, routines, await readTriggers())).toContain('private.after_order_change');
  await database.execute('drop function private.calls(); drop function private.reads_orders()');
});
