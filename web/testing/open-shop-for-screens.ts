// Global setup of the component tests: one shop without pages, in Vitest's own process, for all of their files.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { copyMigratedDatabase } from '@jani-juice/backend/testing';
import type { TestProject } from 'vitest/node';
import { shopMigrations } from '../../scripts/databases/shop-migrations.ts';
import { freePort } from '../../scripts/tests/free-port.ts';
import { openLog } from '../../server/monitoring/log.ts';
import { startShop } from '../../server/shop.ts';
import { readConfig } from '../../server/start/settings/config.ts';

declare module 'vitest' {
  interface ProvidedContext {
    shop: { url: string; publishable: string; secret: string; outbox: string };
  }
}

const root = join(import.meta.dirname, '../..');

export default async function openShopForScreens(project: TestProject): Promise<() => Promise<void>> {
  const dataDir = await mkdtemp(join(tmpdir(), 'jani-screens-'));
  await copyMigratedDatabase(join(dataDir, 'database'), shopMigrations);
  const problems: string[] = [];
  const shop = await startShop({
    config: readConfig(
      {
        PORT: String(await freePort()),
        SIMULATOR_PORT: '0',
        DATA_DIR: dataDir,
        // Members sign in from networks of their own (e2e/staff-member.ts): one may not do so as often as all tests together.
        TRUSTED_PROXIES: '1',
      },
      root,
    ),
    root,
    log: openLog('error', { write: (line) => void problems.push(line) }),
    build: () => Promise.reject(new Error('There are no pages here')),
    mode: 'development',
    assets: (_request, _response, next) => next(),
  });
  project.provide('shop', { url: shop.url, ...shop.keys, outbox: join(dataDir, 'outbox') });
  return async () => {
    await shop.close();
    await rm(dataDir, { recursive: true, force: true, maxRetries: 10 });
    if (problems.length > 0) throw new Error(`Errors in the server's log:\n${problems.join('')}`);
  };
}
