import { defineConfig } from 'vitest/config';
import { slowestFirst } from './scripts/tests/slowest-first.ts';

export default defineConfig({
  test: {
    include: ['e2e/**/*.test.ts'],
    // `npm test` has the main stories, `npm run test:long` all (`e2e/selection.ts`).
    exclude: process.env.STORIES === 'main' ? ['e2e/**/*.long.test.ts'] : [],
    globalSetup: ['scripts/tests/prepare-test-run.ts'],
    pool: 'forks',
    // One process for many files: each opens its own shop and browser, and closes them.
    isolate: false,
    // Stories wait more than they work: four files share two cores.
    maxWorkers: 4,
    maxConcurrency: 4,
    sequence: {
      sequencer: slowestFirst([
        'e2e/storefront/old-browsers.long.test.ts',
        'e2e/storefront/browsing/storefront.test.ts',
        'e2e/storefront/browsing/storefront-texts.long.test.ts',
        'e2e/storefront/following/coming-back.long.test.ts',
        'e2e/storefront/ordering/order-and-pay.test.ts',
        'e2e/staff/team/staff-sign-in.test.ts',
        'e2e/staff/staff-products.test.ts',
        'e2e/staff/orders/staff-orders.test.ts',
        'e2e/staff/staff-lists.long.test.ts',
        'e2e/storefront/browsing/storefront-extras.long.test.ts',
        'e2e/storefront/ordering/several-drinks.long.test.ts',
        'e2e/staff/deliveries/last-mile.long.test.ts',
        'e2e/staff/messages/messages-and-receipt.long.test.ts',
        'e2e/staff/money/staff-refunds.long.test.ts',
        'e2e/storefront/following/own-orders.long.test.ts',
        'e2e/staff/deliveries/staff-deliveries.long.test.ts',
        'e2e/staff/staff-dashboard.long.test.ts',
        'e2e/staff/staff-settings.long.test.ts',
        'e2e/running/backup.long.test.ts',
      ]),
    },
    // How soon something must come true is said where it matters; elsewhere a busy machine may take its time.
    expect: { poll: { timeout: 40_000 } },
    testTimeout: 90_000,
    hookTimeout: 120_000,
  },
});
