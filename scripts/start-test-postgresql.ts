// Vitest's global set-up: one throw-away PostgreSQL for the whole run, where the machine has its binaries.
import { findPostgresql, startThrowawayPostgresql } from './throwaway-postgresql.ts';

export default async function start(): Promise<(() => Promise<void>) | undefined> {
  if (process.env.TEST_POSTGRESQL_URL) return undefined;
  if (!(await findPostgresql())) {
    console.warn('No PostgreSQL on this machine: tests run on PGlite alone, races are skipped.');
    return undefined;
  }
  const cluster = await startThrowawayPostgresql();
  process.env.TEST_POSTGRESQL_URL = cluster.url;
  return () => cluster.stop();
}
