// The genuine CLI brings the project of each landed version to this one: `npx supabase db push`.
import { execFile } from 'node:child_process';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { testDatabases, throwawayDatabase } from '@jani-juice/backend/testing';
import { describe, expect, test } from 'vitest';
import { shopMigrations } from '../../../scripts/shop-migrations.ts';
import { describeCatalogue } from '../database/database-catalogue.ts';
import { listFixtures, openFixture } from './open-fixture.ts';
import { asHostedProject } from './supabase-db-push.ts';

const supabase = fileURLToPath(new URL('../../', import.meta.url));
const run = promisify(execFile);
const version = '3.1.0';
const isReachable =
  testDatabases().includes('postgresql') &&
  (await run('npm', ['view', `supabase@${version}`, 'version']).then(
    () => true,
    () => false,
  ));
if (!isReachable) console.warn('npm is unreachable: db push of the Supabase CLI is not tested.');

/** Runs the CLI with a home of its own, in a copy of the folder, because it writes to both. */
async function push(databaseUrl: string): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), 'supabase-cli-'));
  try {
    for (const name of ['config.toml', 'templates', 'migrations'])
      await cp(join(supabase, name), join(home, 'supabase', name), { recursive: true });
    const { stdout, stderr } = await run(
      'npx',
      [
        ...['--yes', `--package=supabase@${version}`, 'supabase', 'db', 'push'],
        ...['--db-url', databaseUrl, '--yes'],
      ],
      {
        cwd: home,
        maxBuffer: 16 * 1024 * 1024,
        env: {
          ...process.env,
          HOME: home,
          npm_config_cache: process.env.npm_config_cache ?? join(homedir(), '.npm'),
          PUBLIC_URL: 'https://shop.example',
          SUPABASE_TELEMETRY_DISABLED: '1',
        },
      },
    );
    return stdout + stderr;
  } finally {
    await rm(home, { recursive: true, force: true });
  }
}

describe.runIf(isReachable).each(await listFixtures())('the project of %s', (commit) => {
  test('is updated by the CLI', { timeout: 300_000 }, async () => {
    const project = await openFixture('postgresql', commit);
    await asHostedProject(project);
    const url = new URL(project.url ?? '');
    url.searchParams.set('sslmode', 'disable');
    await push(url.href);
    const fresh = await throwawayDatabase('postgresql', shopMigrations);
    const objects = async (database: typeof fresh) => [...(await describeCatalogue(database)).keys()];
    expect(await objects(project)).toEqual(await objects(fresh));
    const { rows } = await project.query<{ version: string }>(
      'select version from supabase_migrations.schema_migrations order by 1',
    );
    expect(rows.length).toBeGreaterThan(4);
    await Promise.all([project.close(), fresh.close()]);
  });
});
