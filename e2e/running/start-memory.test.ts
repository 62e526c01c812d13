// Peak memory of a shop's process on the embedded database, in its first start and in a later one.
import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { type OpenShop, openShop } from '../../scripts/tests/open-shop.ts';

const limitMb = 400;
/** Other versions of Node may be tested too: NODE_PROGRAMS has their paths, separated by spaces. */
const programs = [process.execPath, ...(process.env.NODE_PROGRAMS?.split(' ') ?? [])];

async function peakMb(shop: OpenShop): Promise<number> {
  // Pages that are not cached, so that what a start compiles in the background is done.
  for (let page = 0; page < 20; page += 1) {
    expect((await fetch(`${shop.url}/shop?search=mango${page}`)).status).toBe(200);
  }
  const status = await readFile(`/proc/${shop.pid()}/status`, 'utf8');
  return Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1024;
}

test.runIf(process.platform === 'linux').each(programs)(
  'a start with %s stays below 400 MB',
  async (node) => {
    const shop = await openShop({}, { fromNothing: true, node });
    try {
      expect(await peakMb(shop)).toBeLessThan(limitMb);
      await shop.kill();
      await shop.restart();
      expect(await peakMb(shop)).toBeLessThan(limitMb);
    } finally {
      await shop.close();
    }
  },
  // The first start applies every migration, and other work may have the processors.
  400_000,
);
