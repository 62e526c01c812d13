// Global setup of the component tests: one shop for all of their files. It follows the setup of the whole run, whose PostgreSQL it uses.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { TestProject } from 'vitest/node';
import type { ShopForScreens } from './shop-for-screens.ts';

declare module 'vitest' {
  interface ProvidedContext {
    shop: ShopForScreens;
  }
}

export default async function openShopForScreens(project: TestProject): Promise<() => Promise<void>> {
  if (!project.vitest.projects.some(({ name }) => name === 'screens')) return async () => {};
  const shop = fork(new URL('shop-for-screens.ts', import.meta.url), { execArgv: ['--import', 'tsx'] });
  const ended = once(shop, 'exit');
  const begun = await Promise.race([once(shop, 'message'), ended.then(() => null)]);
  if (!begun) throw new Error('The shop of the component tests did not start');
  project.provide('shop', begun[0]);
  return async () => {
    shop.disconnect();
    const [code] = await ended;
    if (code === 0) return;
    // Vitest prints what a teardown throws, and succeeds.
    process.exitCode = 1;
    console.error("The shop of the component tests ended with errors in the server's log");
  };
}
