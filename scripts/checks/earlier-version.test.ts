// The command of docs/operating.md that names the version which a shop needs before a baseline.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '../..');
const git = (...parameters: string[]) =>
  execFileSync('git', parameters, {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  }).trim();
const hasHistory = (() => {
  try {
    return git('rev-parse', '--is-shallow-repository') === 'false';
  } catch {
    return false;
  }
})();

test.runIf(hasHistory)('names the version whose last migration a baseline asks for', () => {
  const manual = readFileSync(join(root, 'docs/operating.md'), 'utf8');
  const [, command = ''] = /`(git log [^`]*-- supabase\/migrations\/NAME\.sql)` names/.exec(manual) ?? [];
  const folder = join(root, 'supabase/migrations');
  const replaced = readdirSync(folder).flatMap((file) => {
    const [, name] = /^-- Replaces: (\S+)\n/.exec(readFileSync(join(folder, file), 'utf8')) ?? [];
    return name ?? [];
  });
  expect(replaced.length).toBeGreaterThan(0);
  for (const name of replaced) {
    const version = git(...command.replace('NAME', name).split(' ').slice(1));
    const files = git('ls-tree', '--name-only', version, 'supabase/migrations/').split('\n');
    expect(files.sort().at(-1)).toBe(`supabase/migrations/${name}.sql`);
  }
});
