// What the benchmark's customers see on a busy machine, too. How fast it is, the benchmark itself says.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { withEmptyDatabase } from '../../scripts/databases/empty-database.ts';
import { type Build, openBenchShop } from '../shops/bench-shop.ts';
import { buildWorkTree } from '../shops/other-commit.ts';
import { payAtOnce } from './payments.ts';

/** Seconds within which all must know that they have paid, on any machine. */
const within = 120;

let build: Build;
beforeAll(() => {
  build = buildWorkTree();
}, 300_000);

test.each(process.env.TEST_POSTGRESQL_URL ? ['PGlite', 'PostgreSQL'] : ['PGlite'])(
  'no order and no callback of 100 customers who pay at once is refused, on %s',
  async (kind) => {
    const pay = async (databaseUrl?: string) => {
      const folder = await mkdtemp(join(tmpdir(), 'jani-payments-'));
      const shop = await openBenchShop(build, folder, databaseUrl);
      try {
        const { seconds, refused } = await payAtOnce(shop, 100, within);
        expect(refused).toEqual([]);
        expect(seconds).toBeLessThan(within);
      } finally {
        await shop.close();
        await rm(folder, { recursive: true, force: true });
      }
    };
    await (kind === 'PGlite' ? pay() : withEmptyDatabase(pay));
  },
);
