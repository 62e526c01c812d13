// The shop of the component tests, without pages, in a process of its own: Vitest's main process transforms the modules of all tests,
// and a shop in there would answer between them. Sends its addresses and keys, and ends when its parent disconnects or dies.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { copyMigratedDatabase, throwawayDatabase } from '@jani-juice/backend/testing';
import { shopMigrations } from '../../scripts/databases/shop-migrations.ts';
import { freePort } from '../../scripts/tests/free-port.ts';
import { openLog } from '../../server/monitoring/log.ts';
import { startShop } from '../../server/shop.ts';
import { readConfig } from '../../server/start/settings/config.ts';

export interface ShopForScreens {
  url: string;
  publishable: string;
  secret: string;
  /** The outbox folder: e-mails and text messages without a provider. */
  outbox: string;
}

const root = join(import.meta.dirname, '../..');
const dataDir = await mkdtemp(join(tmpdir(), 'jani-screens-'));
// PostgreSQL where the run has started one: it takes less of the machine than PGlite.
const database = process.env.TEST_POSTGRESQL_URL
  ? await throwawayDatabase('postgresql', shopMigrations)
  : null;
if (!database) await copyMigratedDatabase(join(dataDir, 'database'), shopMigrations);
const problems: string[] = [];
const shop = await startShop({
  config: readConfig(
    {
      PORT: String(await freePort()),
      SIMULATOR_PORT: '0',
      DATA_DIR: dataDir,
      ...(database?.url ? { DATABASE_URL: database.url } : {}),
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
process.once('disconnect', async () => {
  await shop.close();
  await database?.close();
  await rm(dataDir, { recursive: true, force: true, maxRetries: 10 });
  for (const line of problems) process.stderr.write(`In the server's log: ${line}`);
  process.exit(problems.length > 0 ? 1 : 0);
});
process.send?.({ url: shop.url, ...shop.keys, outbox: join(dataDir, 'outbox') } satisfies ShopForScreens);
