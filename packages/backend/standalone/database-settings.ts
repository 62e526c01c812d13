// Settings of the data service stored in the database, as PostgREST supports them.
import type { Database } from '../database/database.ts';
import { type DataConfig, readDataConfig, settingsInDatabase } from './config.ts';

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;

/**
 * Reads the environment's settings and, if configured, the database's, which override them: those of its user
 * (`alter role … set pgrst.db_schemas = …`, first in this database, then in all) and those that the function PGRST_DB_PRE_CONFIG sets.
 * @throws WrongSetting naming the first wrong one; DatabaseError
 */
export async function readDatabaseSettings(
  database: Database,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<DataConfig> {
  const ofEnvironment = readDataConfig(environment);
  if (!ofEnvironment) throw new Error('the data service has no database');
  if (!ofEnvironment.inDatabase) return ofEnvironment;
  const ofRole = await settingsOfRole(database);
  // The name of that function may itself be a setting of the database.
  const preConfig = readDataConfig(environment, ofRole)?.inDatabase?.preConfig;
  const ofFunction = preConfig ? await settingsOfFunction(database, preConfig) : new Map();
  return readDataConfig(environment, new Map([...ofFunction, ...ofRole])) ?? ofEnvironment;
}

const names = settingsInDatabase.map((name) => `pgrst.${name}`);

async function settingsOfRole(database: Database): Promise<Map<string, string>> {
  const { rows } = await database.query<{ setting: string }>(
    `select given.setting
     from pg_catalog.pg_db_role_setting s, unnest(s.setconfig) as given(setting)
     where s.setrole = (select oid from pg_catalog.pg_roles where rolname = current_user)
       and s.setdatabase in (0, (select oid from pg_catalog.pg_database where datname = current_catalog))
     order by s.setdatabase`,
  );
  const settings = new Map<string, string>();
  for (const { setting } of rows) {
    const equals = setting.indexOf('=');
    if (names.includes(setting.slice(0, equals))) {
      settings.set(setting.slice('pgrst.'.length, equals), setting.slice(equals + 1));
    }
  }
  return settings;
}

async function settingsOfFunction(
  database: Database,
  { schema, name }: { schema: string; name: string },
): Promise<Map<string, string>> {
  const called = schema === '' ? quoted(name) : `${quoted(schema)}.${quoted(name)}`;
  return database.transaction(async (session) => {
    await session.query(`select from ${called}()`);
    const { rows } = await session.query<{ name: string; value: string }>(
      `select replace(name, 'pgrst.', '') as name, current_setting(name, true) as value
       from unnest($1::text[]) as name where current_setting(name, true) <> ''`,
      [`{${names.join(',')}}`],
    );
    return new Map(rows.map((row) => [row.name, row.value]));
  });
}
