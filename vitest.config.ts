import { defineConfig } from 'vitest/config';
import { slowestFirst } from './scripts/tests/slowest-first.ts';
import {
  findUnitTests,
  longTests,
  releaseTests,
  sampledTests,
  screenTests,
  sqlTests,
} from './scripts/tests/test-levels.ts';

const exclude = ['node_modules', 'build', 'data', 'e2e/**', '.react-router'];
const units = findUnitTests();
/** `npm run test:proofs`, instead of `npm run test:long`. */
const isForLanding = process.env.PROOFS === 'landing';
const timeouts = {
  // How soon something must come true is said where it matters; elsewhere a busy machine may take its time.
  expect: { poll: { timeout: 20_000 } },
  testTimeout: 60_000,
  hookTimeout: 120_000,
};

export default defineConfig({
  test: {
    globalSetup: ['scripts/tests/prepare-test-run.ts', 'web/testing/open-shop-for-screens.ts'],
    // Some wait more than they work: four files share two cores.
    maxWorkers: 4,
    sequence: {
      sequencer: slowestFirst([
        'torture/torture.long.test.ts',
        'server/backups/backups.long.test.ts',
        'conformance/realtime.test.ts',
        'changes/postgres-changes.test.ts',
        'updates/updates.sampled.test.ts',
        'prompts/callback-matrix.sampled.test.ts',
        'prompts/prompts.test.ts',
        'orders/unpaid-orders.sampled.test.ts',
        'orders/shop-model.sampled.test.ts',
        'till/money-without-a-prompt.sampled.test.ts',
        'pglite/kill.long.test.ts',
      ]),
    },
    projects: [
      {
        // They leave nothing behind, so that one worker runs many files.
        test: { name: 'units', include: units, pool: 'threads', isolate: false, ...timeouts },
      },
      {
        test: {
          name: 'sql',
          include: sqlTests,
          // What they try was tried on PostgreSQL before.
          exclude: [...exclude, ...units, ...longTests, ...(isForLanding ? sampledTests : [])],
          pool: 'forks',
          // One process for many files, as in `services`: each opens its own database and closes it.
          isolate: false,
          env: { TEST_DATABASES: process.env.TEST_DATABASES ?? 'one' },
          ...timeouts,
        },
      },
      {
        test: {
          name: 'services',
          include: ['**/*.test.ts', '**/*.test.tsx'],
          exclude: [...exclude, ...units, ...sqlTests, ...screenTests, ...longTests],
          pool: 'forks',
          isolate: false,
          ...timeouts,
        },
      },
      {
        // Staff screens in a DOM, before one shop for all files. They leave nothing behind, too. As in the shop, React is the
        // one for production, which needs half the time.
        oxc: { jsx: { runtime: 'automatic', development: false } },
        test: {
          name: 'screens',
          env: { NODE_ENV: 'production' },
          include: screenTests,
          exclude: [...exclude],
          environment: './web/testing/dom-environment.ts',
          // A link that saves a file leaves the page in happy-dom, unlike in a browser. Nothing else leaves it.
          environmentOptions: { happyDOM: { settings: { navigation: { disableFallbackToSetURL: true } } } },
          setupFiles: ['web/testing/prepare-dom.ts'],
          pool: 'threads',
          isolate: false,
          ...timeouts,
          // Looking for elements by their role takes long in a DOM of scripts: on a busy machine a test of many steps needs a minute.
          testTimeout: 180_000,
          // The list of what passed at the second attempt quotes the console.
          chaiConfig: { truncateThreshold: 300 },
        },
      },
      {
        test: {
          name: 'long',
          include: longTests,
          exclude: isForLanding ? [...exclude, ...releaseTests] : exclude,
          pool: 'forks',
          ...timeouts,
          // They start processes and restore databases, four files at once.
          testTimeout: 180_000,
        },
      },
      {
        test: {
          name: 'every-case',
          include: sampledTests,
          exclude,
          pool: 'forks',
          // The rules are the same SQL on both databases: `sql` tries the sample on PGlite, too.
          env: { TEST_DEPTH: 'exhaustive', TEST_DATABASES: 'one' },
          ...timeouts,
          testTimeout: 180_000,
        },
      },
    ],
  },
});
