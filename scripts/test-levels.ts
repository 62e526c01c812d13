// Test levels: unit tests open no database, long proofs run in `npm run test:long`, the rest tests services and SQL.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { packageEntries } from './package-entries.ts';

const root = join(import.meta.dirname, '..');

/** Run by `npm run test:long` alone. */
export const longTests = [
  'benchmarks/payments.test.ts',
  'torture/torture.test.ts',
  'torture/pooled.test.ts',
  'packages/backend/database/kill.test.ts',
  'packages/backend/database/page-check.test.ts',
  'packages/backend/database/pglite.test.ts',
  'packages/backend/database/power-cut.test.ts',
  'packages/backend/storage/kill.test.ts',
  'server/backups/backups.test.ts',
  'server/backups/move-interrupted.test.ts',
  'server/backups/move-to-project.test.ts',
  'server/start/image-memory.test.ts',
  'server/backups/continuous-archiving.test.ts',
  'server/shop.test.ts',
  'server/start/start-failure.test.ts',
  'server/start/unread-answers.test.ts',
  'server/monitoring/watch-loop.test.ts',
  'supabase/tests/hosted/config-push.test.ts',
  'supabase/tests/hosted/hosted.test.ts',
  'scripts/compose-processes.test.ts',
  'scripts/build-while-running.test.ts',
  'scripts/containers.test.ts',
  'scripts/update.test.ts',
  'supabase/tests/updates/db-push.test.ts',
];

/** Run by both: `npm test` tries a sample of their cases, `npm run test:long` every one (`test-depth.ts`). */
export const exhaustiveTests = [
  'conformance/data-fuzz.test.ts',
  'supabase/functions/mobile-money/prompts/callback-matrix.test.ts',
  'supabase/tests/orders/held-stock.test.ts',
  'supabase/tests/orders/large-shop.test.ts',
  'supabase/tests/database/locks.test.ts',
  'supabase/tests/messages/message-budgets.test.ts',
  'supabase/tests/payments/money-without-a-prompt.test.ts',
  'supabase/tests/orders/shared-networks.test.ts',
  'supabase/tests/orders/shop-model.test.ts',
  'supabase/tests/orders/unpaid-orders.test.ts',
];

/**
 * Tests of SQL, and of services that run on both databases. `npm test` runs them on PostgreSQL where there is one,
 * `npm run test:long` on PGlite. The tests of the drivers and of the data service run on both in `npm test`.
 */
export const sqlTests = [
  'supabase/**/*.test.ts',
  'server/messages/outbox.test.ts',
  'packages/backend/realtime/{changes/postgres-changes,service}.test.ts',
  'packages/backend/conformance/auth-*.test.ts',
  'conformance/{realtime,storage,one-request,shop-calls}*.test.ts',
];

/** Component tests of staff screens (`web/testing/`). */
export const screenTests = ['web/**/*.test.tsx'];

const opensDatabase = new Set([
  'packages/backend/database/pglite.ts',
  'packages/backend/database/postgresql.ts',
  'scripts/open-shop.ts',
  'scripts/throwaway-postgresql.ts',
]);
const importPattern =
  /(?:^|\n)(?:import|export)\s(?!type\s)(?:[^'";]*?\sfrom\s)?['"]([.@][^'"]+)['"]|import\(\s*['"]([.@][^'"]+)['"]/g;
const cache = new Map<string, boolean>();

/** Whether a file, or a file that it imports, opens a database. */
function reachesDatabase(file: string): boolean {
  if (opensDatabase.has(file)) return true;
  if (!/\.tsx?$/.test(file)) return false;
  const before = cache.get(file);
  if (before !== undefined) return before;
  cache.set(file, false);
  const text = readFileSync(join(root, file), 'utf8');
  const reaches = [...text.matchAll(importPattern)].some(([, eager, lazy]) => {
    const imported = eager ?? lazy ?? '';
    const path = packageEntries.get(imported) ?? relative(root, join(root, dirname(file), imported));
    return existsSync(join(root, path)) && reachesDatabase(path);
  });
  cache.set(file, reaches);
  return reaches;
}

export function findUnitTests(): string[] {
  const folders = readdirSync(root, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !/^(\.|node_modules|build|data|docs|e2e)/.test(entry.name))
    .map(({ name }) => name);
  return folders
    .flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((path) =>
        join(folder, path),
      ),
    )
    .filter((file) => /\.test\.ts$/.test(file) && !longTests.includes(file) && !reachesDatabase(file));
}
