// Test levels: unit tests open no database, long proofs run in `npm run test:proofs`, the rest tests services and SQL.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { packageEntries } from '../checks/package-entries.ts';

const root = join(import.meta.dirname, '../..');

/** Run by `npm run test:proofs` and `npm run test:long`: they take long, need a quiet machine, or prove what rarely changes. */
export const longTests = ['**/*.long.test.ts'];

/** Of these, what little code can break, a third of their time: only `npm run test:long` runs them, before a release. */
export const releaseTests = [
  'server/memory/*.long.test.ts',
  'packages/backend/database/pglite/{page-check,power-cut}.long.test.ts',
  'supabase/tests/hosted/config-push.long.test.ts',
];

/** `npm test` tries a sample of their cases, `npm run test:long` every one (`test-depth.ts`). */
export const sampledTests = ['**/*.sampled.test.ts'];

/**
 * Tests of SQL, and of services that run on both databases. `npm test` runs them on PostgreSQL where there is one,
 * `npm run test:proofs` on PGlite. The tests of the drivers and of the data service run on both in `npm test`.
 */
export const sqlTests = [
  'supabase/**/*.test.ts',
  '**/conformance/**/*.test.ts',
  'packages/backend/realtime/**/*.test.ts',
  'server/messages/**/*.test.ts',
];

/** Component tests of staff screens (`web/testing/`). */
export const screenTests = ['web/**/*.test.tsx'];

const opensDatabase = new Set([
  'packages/backend/database/pglite/pglite.ts',
  'packages/backend/database/postgresql/postgresql.ts',
  'scripts/tests/open-shop.ts',
  'scripts/databases/throwaway-postgresql.ts',
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
    .filter((file) => /(?<!\.long)\.test\.ts$/.test(file) && !reachesDatabase(file));
}
