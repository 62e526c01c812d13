import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';

/** Installs in a folder with one dependency inside it, without a network. */
function prepareProject() {
  const folder = mkdtempSync(join(tmpdir(), 'prepare-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const write = (path: string, content: unknown) => {
    mkdirSync(join(folder, path, '..'), { recursive: true });
    writeFileSync(join(folder, path), JSON.stringify(content));
  };
  for (const name of ['build/prepare.mjs', 'releases/releases.mjs', 'releases/take-turn.mjs'])
    cpSync(join(import.meta.dirname, '..', name), join(folder, 'scripts', name));
  const project = { name: 'project', version: '1.0.0' };
  write('packages/first/package.json', { name: 'first', version: '1.0.0' });
  write('packages/second/package.json', { name: 'second', version: '1.0.0' });
  const depend = (name: string) => {
    const dependencies = { [name]: `file:packages/${name}` };
    write('package.json', { ...project, dependencies });
    // Not as npm writes it: without indentation, and with a field that no version of npm has.
    write('package-lock.json', {
      ...project,
      lockfileVersion: 3,
      packages: {
        '': { ...project, dependencies },
        [`node_modules/${name}`]: { resolved: `packages/${name}`, link: true },
        [`packages/${name}`]: { version: '1.0.0', unknownField: true },
      },
    });
  };
  const lockfile = () => readFileSync(join(folder, 'package-lock.json'), 'utf8');
  const run = (name: string) =>
    spawnSync(
      process.execPath,
      [
        '--input-type=module',
        '--eval',
        `import { ${name} } from './scripts/build/prepare.mjs'; await ${name}();`,
      ],
      { cwd: folder, encoding: 'utf8' },
    );
  const install = () => {
    const { status, stdout, stderr } = run('installPackages');
    expect(status, `${stdout}${stderr}`).toBe(0);
    return stdout;
  };
  const isInstalled = (name: string) => existsSync(join(folder, 'node_modules', name, 'package.json'));
  return { folder, depend, lockfile, run, install, isInstalled };
}

test('installs after a change of the lockfile, and never writes it', () => {
  const { depend, lockfile, install, isInstalled } = prepareProject();
  depend('first');
  const before = lockfile();
  install();
  expect(lockfile()).toBe(before);
  expect(isInstalled('first')).toBe(true);
  expect(install(), 'nothing has changed').toBe('');

  depend('second');
  const pulled = lockfile();
  install();
  expect(lockfile()).toBe(pulled);
  expect(isInstalled('second')).toBe(true);
  expect(isInstalled('first')).toBe(false);
});

test('says in one line that settings cannot be read', () => {
  const { folder, run } = prepareProject();
  mkdirSync(join(folder, '.env'));
  const { status, stderr } = run('readOwnSettings');
  expect(status).toBe(1);
  expect(stderr).toMatch(/^\S+\.env cannot be read: [^\n]+\n$/);
});
