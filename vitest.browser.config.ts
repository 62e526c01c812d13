import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['e2e/**/*.test.ts'],
    globalSetup: ['scripts/prepare-test-run.ts'],
    pool: 'forks',
    // Each file opens a shop and a browser of its own. Stories wait more than they work: three files share two cores.
    maxWorkers: 3,
    maxConcurrency: 4,
    testTimeout: 90_000,
    hookTimeout: 120_000,
  },
});
