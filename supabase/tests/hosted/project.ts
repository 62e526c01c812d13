// A PostgreSQL cluster with a database like that of a new hosted project, with the shop's migrations applied by its owner.
import { access, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Database } from '@jani-juice/backend/database';
import { openPostgresql } from '@jani-juice/backend/postgresql';
import { startThrowawayPostgresql } from '../../../scripts/databases/throwaway-postgresql.ts';
import { writesWithoutWhere } from '../database/writes-without-where.ts';

export interface HostedProject {
  /** The platform's superuser, which an owner of a project does not have. */
  platform: Database;
  /** The owner's role: no superuser. */
  owner: Database;
  /** Connection URL of the owner. */
  ownerUrl: string;
  /** The role of the table API. */
  authenticator: Database;
  /** The role of the auth service. */
  auth: Database;
  /** Whether pg-safeupdate is installed and loaded for the API, as the platform does. */
  hasSafeupdate: boolean;
  /** UPDATE and DELETE statements without WHERE that the API executed, also inside functions: those that safeupdate rejects. */
  unsafeWrites(): Promise<string[]>;
  close(): Promise<void>;
}

/**
 * Starts the cluster, creates the project and applies the migrations as `postgres`.
 * @param options.isSeeded with the demo catalogue. Default: true
 */
export async function createHostedProject({ isSeeded = true } = {}): Promise<HostedProject> {
  const cluster = await startThrowawayPostgresql(
    {
      fsync: 'off',
      logging_collector: 'on',
      log_destination: 'jsonlog',
      'auto_explain.log_min_duration': '0',
      'auto_explain.log_nested_statements': 'on',
      'auto_explain.log_format': 'json',
    },
    'supabase_admin',
  );
  const urlOf = (role: string) => cluster.url.replace('supabase_admin@', `${role}@`);
  const open = (role: string, poolSize = 4) => openPostgresql(urlOf(role), { poolSize });
  const platform = open('supabase_admin', 1);
  await platform.execute(await readFile(new URL('project.sql', import.meta.url), 'utf8'));
  const { rows } = await platform.query<{ folder: string }>(
    `select setting as folder from pg_config where name = 'PKGLIBDIR'`,
  );
  const hasSafeupdate = await access(join(rows[0]?.folder ?? '', 'safeupdate.so')).then(
    () => true,
    () => false,
  );
  // auto_explain logs every executed statement with those that functions execute.
  await platform.execute(
    `alter role authenticator set session_preload_libraries = ${hasSafeupdate ? 'safeupdate, auto_explain' : 'auto_explain'}`,
  );
  const owner = open('postgres', 1);
  const migrations = new URL('../../migrations/', import.meta.url);
  const names = (await readdir(migrations)).filter((name) => name.endsWith('.sql')).sort();
  for (const name of names) {
    const text = await readFile(new URL(name, migrations), 'utf8');
    await owner
      .transaction((session) => session.execute(text))
      .catch((cause) => {
        throw new Error(`${name} does not apply as postgres: ${(cause as Error).message}`, { cause });
      });
  }
  if (isSeeded) await owner.execute(await readFile(new URL('../../seed.sql', import.meta.url), 'utf8'));
  const databases = {
    platform,
    owner,
    authenticator: open('authenticator'),
    auth: open('supabase_auth_admin', 1),
  };
  return {
    ...databases,
    ownerUrl: urlOf('postgres'),
    hasSafeupdate,
    async unsafeWrites() {
      const log = await platform.query<{ lines: string }>(
        `select pg_read_file(pg_current_logfile('jsonlog')) as lines`,
      );
      const messages = (log.rows[0]?.lines ?? '').split('\n').filter((line) => line.includes('Query Text'));
      const statements = messages.map((line) => {
        const { message } = JSON.parse(line) as { message: string };
        return String(JSON.parse(message.slice(message.indexOf('{')))['Query Text']);
      });
      return [...new Set(statements)].flatMap(writesWithoutWhere);
    },
    async close() {
      for (const database of Object.values(databases)) await database.close();
      await cluster.stop();
    },
  };
}
