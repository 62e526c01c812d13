// The genuine CLI brings the project of each landed version to this one: `npx supabase db push`.
import { testDatabases, throwawayDatabase } from '@jani-juice/backend/testing';
import { describe, expect, test } from 'vitest';
import { shopMigrations } from '../../../scripts/databases/shop-migrations.ts';
import { describeCatalogue } from '../database/database-catalogue.ts';
import { isOnNpm, runCli } from '../supabase-cli.ts';
import { listFixtures, openFixture } from './open-fixture.ts';
import { asHostedProject } from './supabase-db-push.ts';

const version = '3.1.0';
const isReachable = testDatabases().includes('postgresql') && (await isOnNpm(version));
if (!isReachable) console.warn('npm is unreachable: db push of the Supabase CLI is not tested.');

describe.runIf(isReachable).each(await listFixtures())('the project of %s', (commit) => {
  test('is updated by the CLI', { timeout: 300_000 }, async () => {
    const project = await openFixture('postgresql', commit);
    await asHostedProject(project);
    const url = new URL(project.url ?? '');
    url.searchParams.set('sslmode', 'disable');
    await runCli(version, ['db', 'push', '--db-url', url.href]);
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
