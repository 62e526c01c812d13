// An empty PostgreSQL database of a test run.
import { randomBytes } from 'node:crypto';
import { openPostgresql } from '@jani-juice/backend/postgresql';

/** Creates a database, which is deleted after the work. */
export async function withEmptyDatabase(work: (url: string) => Promise<void>): Promise<void> {
  const cluster = process.env.TEST_POSTGRESQL_URL ?? '';
  const admin = openPostgresql(cluster, { poolSize: 1 });
  const name = `empty_${randomBytes(6).toString('hex')}`;
  await admin.execute(`create database ${name} template template0`);
  const url = new URL(cluster);
  url.pathname = `/${name}`;
  try {
    await work(url.href);
  } finally {
    await admin.execute(`drop database ${name} with (force)`);
    await admin.close();
  }
}
