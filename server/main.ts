// The process: reads the settings, starts the shop, prints its URLs, and stops it on a signal.
import { basename, dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { ServerBuild } from 'react-router';
import { openLog } from './monitoring/log.ts';
import { watchLoop } from './monitoring/watch-loop.ts';
import { type Shop, startShop } from './shop.ts';
import { describeFirstAdmin, describeShop } from './start/describe-shop.ts';
import { readConfig } from './start/settings/config.ts';
import { describeStartFailure } from './start/start-failure.ts';

/**
 * Runs the built shop until SIGINT or SIGTERM.
 * @param root the project's folder. All files but settings and data are those of the release that this program belongs to
 */
export async function main(root: string): Promise<void> {
  // scripts/releases/releases.mjs
  const release = dirname(dirname(fileURLToPath(import.meta.url)));
  let shop: Shop;
  try {
    const log = openLog(process.env.LOG_LEVEL?.trim() || 'info');
    const config = readConfig(process.env, root);
    const build = (await import(pathToFileURL(join(release, 'server/index.js')).href)) as ServerBuild;
    shop = await startShop({
      config,
      root: release,
      log,
      build,
      mode: 'production',
      assets: join(release, 'client'),
      release: basename(release),
      onFirstAdmin(account) {
        if (account.outcome === 'made') process.stdout.write(`\n  ${describeFirstAdmin(account)}\n\n`);
      },
    });
    void watchLoop(log);
  } catch (error) {
    process.stderr.write(`\nThe shop was not started. ${describeStartFailure(error)}\n`);
    process.exitCode = 1;
    return;
  }
  process.stdout.write(describeShop(shop));

  let isStopping = false;
  const stop = async () => {
    if (isStopping) process.exit(1);
    isStopping = true;
    // A second signal ends the process immediately, as does a timeout.
    setTimeout(() => process.exit(1), 10_000).unref();
    await shop.close();
    process.exit(0);
  };
  process.on('SIGINT', stop);
  process.on('SIGTERM', stop);
}
