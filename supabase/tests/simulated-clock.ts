// A clock for tests of what happens over time: the database takes its time from a table instead of the system.
import type { Database } from '@jani-juice/backend/database';

/** Functions of PostgreSQL that return the time. */
const clocks = ['now', 'clock_timestamp', 'statement_timestamp', 'transaction_timestamp'];

/**
 * Replaces the clock of a throwaway database, before its first test. It stands still until it is set.
 * @returns sets the clock, in milliseconds since the epoch
 */
export async function simulateClock(database: Database): Promise<(at: number) => Promise<void>> {
  await database.execute(`
    create schema simulated;
    grant usage on schema simulated to public;
    create table simulated.clock (at timestamptz not null);
    insert into simulated.clock values (now());
  `);
  for (const name of clocks) {
    // Functions find the name of the original first, whatever their search path is.
    await database.execute(`
      alter function pg_catalog.${name}() rename to system_${name};
      create function pg_catalog.${name}() returns timestamptz language plpgsql ${name === 'clock_timestamp' ? 'volatile' : 'stable'} security definer
      as $$ begin return (select c.at from simulated.clock as c); end $$;
    `);
  }
  // Expressions that are stored parsed name the original by its identifier.
  await database.execute(`
    do $$
    declare
      stored record;
    begin
      for stored in
        select a.attrelid::regclass as relation, a.attname as column_name, pg_get_expr(d.adbin, d.adrelid) as expression
        from pg_attrdef as d
        join pg_attribute as a on a.attrelid = d.adrelid and a.attnum = d.adnum and a.attgenerated = ''
        join pg_class as c on c.oid = d.adrelid and c.relkind in ('r', 'p')
        where c.relnamespace in ('public'::regnamespace, 'private'::regnamespace)
          and pg_get_expr(d.adbin, d.adrelid) like '%system_%'
      loop
        execute format('alter table %s alter column %I set default %s', stored.relation, stored.column_name,
          replace(stored.expression, 'system_', ''));
      end loop;
      for stored in
        select pg_get_functiondef(p.oid) as definition from pg_proc as p
        where p.pronamespace in ('public'::regnamespace, 'private'::regnamespace) and p.prosqlbody is not null
          and pg_get_functiondef(p.oid) ~ 'system_(${clocks.join('|')})'
      loop
        execute regexp_replace(stored.definition, 'system_(${clocks.join('|')})', '\\1', 'g');
      end loop;
    end $$;
  `);
  return async (at) => {
    await database.query('update simulated.clock set at = $1', [new Date(at).toISOString()]);
  };
}
