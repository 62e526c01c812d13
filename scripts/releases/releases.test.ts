// Releases in a small project: what runs keeps its files while others are built, become current and are deleted.
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { completeRelease, currentRelease, findRelease, newRelease, switchTo } from './releases.mjs';

const day = 24 * 60 * 60 * 1000;

function makeProject() {
  const root = mkdtempSync(join(tmpdir(), 'jani-releases-'));
  onTestFinished(() => rmSync(root, { recursive: true }));
  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    // As npm does: a new file in the place of the old one.
    rmSync(join(root, path), { force: true });
    writeFileSync(join(root, path), text);
  };
  const install = (version: string) => {
    write('node_modules/juice/index.js', version);
    write('node_modules/juice/node_modules/pulp/index.js', 'pulp');
    write('node_modules/press/index.js', 'development');
    write(
      'package-lock.json',
      JSON.stringify({
        packages: {
          '': { version },
          'node_modules/juice': { version },
          'node_modules/juice/node_modules/pulp': {},
          'node_modules/press': { dev: true },
          'node_modules/of-another-platform': { optional: true },
        },
      }),
    );
  };
  const build = (id: string) => {
    const making = newRelease(root);
    write(`${making}/client/page.js`, id);
    write(`supabase/migrations/${id}.sql`, 'select 1');
    completeRelease(root, making, id);
    return join(root, 'build/releases', id);
  };
  const replacedAgo = (id: string, days: number) => {
    const time = new Date(Date.now() - days * day);
    utimesSync(join(root, 'build/releases', id), time, time);
  };
  const releases = () => readdirSync(join(root, 'build/releases')).sort();
  const packages = () => readdirSync(join(root, 'build/packages')).length;
  return { root, install, build, replacedAgo, releases, packages };
}

test('a release has all that a process reads, and keeps it when packages change', () => {
  const { root, install, build, packages } = makeProject();
  install('1');
  const first = build('first');
  switchTo(root, 'first');
  install('2');
  const second = build('second');
  build('third');
  switchTo(root, 'second');
  const versionIn = (release: string) => readFileSync(join(release, 'node_modules/juice/index.js'), 'utf8');
  expect([versionIn(first), versionIn(second)]).toEqual(['1', '2']);
  expect(readdirSync(join(first, 'node_modules'))).toEqual(['juice']);
  expect(existsSync(join(first, 'node_modules/juice/node_modules/pulp/index.js'))).toBe(true);
  expect(readdirSync(join(first, 'supabase/migrations'))).toEqual(['first.sql']);
  expect(readFileSync(join(first, 'client/page.js'), 'utf8')).toBe('first');
  expect(packages(), 'releases with the same lockfile share their packages').toBe(2);
});

test('only a switch changes the current release, whatever happens to a build', () => {
  const { root, install, build, releases } = makeProject();
  expect(currentRelease(root)).toBeNull();
  install('1');
  build('first');
  expect(currentRelease(root)).toBeNull();
  switchTo(root, 'first');
  newRelease(root);
  expect(basename(currentRelease(root) ?? '')).toBe('first');
  build('second');
  expect(releases(), 'the folder of the interrupted build is gone').toEqual(['first', 'second']);
  expect(basename(currentRelease(root) ?? '')).toBe('first');
  switchTo(root, 'second');
  switchTo(root, 'first');
  expect(currentRelease(root)).toBe(findRelease(root, 'first'));
});

test('keeps two former releases, and all that were replaced within a week', () => {
  const { root, install, build, replacedAgo, releases, packages } = makeProject();
  for (const id of ['first', 'second', 'third']) {
    install(id);
    build(id);
    switchTo(root, id);
  }
  replacedAgo('first', 30);
  replacedAgo('second', 20);
  expect(releases()).toEqual(['first', 'second', 'third']);
  build('fourth');
  switchTo(root, 'fourth');
  // The third was current until now.
  expect(releases()).toEqual(['fourth', 'second', 'third']);
  for (const id of ['fifth', 'sixth']) {
    build(id);
    switchTo(root, id);
  }
  expect(releases()).toEqual(['fifth', 'fourth', 'sixth', 'third']);
  expect(packages()).toBe(1);
});
