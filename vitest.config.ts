import { defineConfig } from 'vitest/config';
import { slowestFirst } from './scripts/slowest-first.ts';

export default defineConfig({
  test: {
    include: ['**/*.test.ts', '**/*.test.tsx'],
    exclude: ['node_modules', 'build', 'data', 'e2e/**', '.react-router'],
    globalSetup: ['scripts/prepare-test-run.ts'],
    pool: 'forks',
    // Some wait more than they work: three files share two cores.
    maxWorkers: 3,
    sequence: {
      sequencer: slowestFirst([
        'torture/torture.test.ts',
        'server/backups/backups.test.ts',
        'mobile-money/notice-matrix.test.ts',
        'tests/shop-model.test.ts',
        'tests/money-without-a-prompt.test.ts',
        'mobile-money/mobile-money.test.ts',
        'database/kill.test.ts',
        'conformance/realtime.test.ts',
      ]),
    },
    // How soon something must come true is said where it matters; elsewhere a busy machine may take its time.
    expect: { poll: { timeout: 20_000 } },
    testTimeout: 60_000,
    hookTimeout: 120_000,
  },
});
