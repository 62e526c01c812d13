// `npm run dev`: the shop with hot reloading. `tsx watch` restarts the server.
import { existsSync } from 'node:fs';
import type { ServerBuild } from 'react-router';
import { createServer, isRunnableDevEnvironment } from 'vite';
import { openLog } from '../server/monitoring/log.ts';
import { startShop } from '../server/shop.ts';
import { describeShop } from '../server/start/describe-shop.ts';
import { readConfig } from '../server/start/settings/config.ts';

const root = process.cwd();
if (existsSync('.env')) process.loadEnvFile('.env');
const vite = await createServer({ server: { middlewareMode: true }, appType: 'custom' });
const { ssr } = vite.environments;
if (!ssr || !isRunnableDevEnvironment(ssr)) throw new Error('the pages cannot be rendered in development');

const shop = await startShop({
  config: readConfig(process.env, root),
  root,
  log: openLog(process.env.LOG_LEVEL ?? 'info'),
  build: () => ssr.runner.import('virtual:react-router/server-build') as Promise<ServerBuild>,
  mode: 'development',
  assets: vite.middlewares,
});
process.stdout.write(describeShop(shop));

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, async () => {
    await shop.close();
    await vite.close();
    process.exit(0);
  });
}
