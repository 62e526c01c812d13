// The built project of another commit, in a folder of its own.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Build } from './bench-shop.ts';

const root = join(import.meta.dirname, '../..');

/** Builds the work tree. */
export function buildWorkTree(): Build {
  build(root);
  return { name: 'work tree', root };
}

/**
 * Exports, installs and builds a commit in the temporary folder, where later runs find it.
 * @param commit any name that git understands
 */
export function buildCommit(commit: string): Build {
  const id = execFileSync('git', ['rev-parse', '--verify', `${commit}^{commit}`], {
    cwd: root,
    encoding: 'utf8',
  });
  const name = id.slice(0, 7);
  const folder = join(tmpdir(), `jani-bench-${name}`);
  if (!existsSync(folder)) {
    const unfinished = `${folder}.making`;
    rmSync(unfinished, { recursive: true, force: true });
    mkdirSync(unfinished);
    const files = execFileSync('git', ['archive', id.trim()], { cwd: root, maxBuffer: 2 ** 30 });
    execFileSync('tar', ['-x'], { cwd: unfinished, input: files });
    // Before the build, which notes its path.
    renameSync(unfinished, folder);
  }
  build(folder);
  return { name, root: folder };
}

/** Installs and builds what is missing. */
function build(folder: string): void {
  console.log(`Building ${folder} ...`);
  execFileSync(process.execPath, ['scripts/build.mjs'], {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
}
