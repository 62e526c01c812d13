// Updates of a project whose build and shop are stand-ins: the scripts of an update, with git, processes and a restart command as in use.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { freePort } from '../tests/free-port.ts';
import { until } from '../tests/open-shop.ts';

interface Version {
  id: string;
  /** How its processes fail: they end, or they are never ready. */
  failure?: 'ends' | 'is not ready';
  isBuildBroken?: boolean;
  /** Text of its migrations by name. */
  migrations: Record<string, string>;
}

/** Builds a release as scripts/releases/releases.mjs describes it. */
const buildScript = `
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { noteNext, switchTo } from './releases/releases.mjs';
const root = process.cwd();
const { id, isBuildBroken, migrations } = JSON.parse(readFileSync('version.json', 'utf8'));
if (isBuildBroken) process.exit(1);
const folder = 'build/releases/' + id;
for (const name of ['service', 'backend/platform', 'supabase/migrations']) mkdirSync(folder + '/' + name, { recursive: true });
mkdirSync('build/packages', { recursive: true });
for (const [name, text] of Object.entries(migrations)) writeFileSync(folder + '/supabase/migrations/' + name, text);
for (const name of ['version.json', 'service/main.js', 'service/check-version.js']) cpSync(name, folder + '/' + name);
if (process.argv.includes('--next')) noteNext(root, id);
else switchTo(root, id);
`;

/** Reads and writes the applied migrations in a file, as a shop does in its database. */
const checkVersion = `
import { existsSync, readFileSync } from 'node:fs';
export const readVersion = () => JSON.parse(readFileSync(new URL('../version.json', import.meta.url), 'utf8'));
export const readDatabase = () => existsSync('database.json') ? JSON.parse(readFileSync('database.json', 'utf8')) : {};
export async function checkVersion() {
  const { migrations } = readVersion();
  const newer = Object.entries(readDatabase()).filter(([name, text]) => !(name in migrations) && !text.startsWith('-- Earlier versions keep working'));
  if (newer.length > 0) process.exitCode = 1;
}
`;

const main = `
import { createServer } from 'node:http';
import { writeFileSync } from 'node:fs';
import { checkVersion, readDatabase, readVersion } from './check-version.js';
const { id, failure, migrations } = readVersion();
await checkVersion();
if (process.exitCode) process.exit();
writeFileSync('database.json', JSON.stringify({ ...readDatabase(), ...migrations }));
if (failure === 'ends') process.exit(1);
createServer((request, response) => {
  const isUnready = request.url === '/readyz' && failure === 'is not ready';
  response.writeHead(isUnready ? 503 : 200, { 'x-release': id, connection: 'close' }).end(id);
}).listen(Number(process.env.PORT), '127.0.0.1');
`;

/** Starts the current release, again whenever it ends, as a service manager does. */
const supervisor = `
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
const start = () => {
  const id = readFileSync('build/current', 'utf8').trim();
  const child = spawn(process.execPath, ['build/releases/' + id + '/service/main.js'], { stdio: 'inherit' });
  writeFileSync('process-' + process.env.PORT, String(child.pid));
  child.once('exit', () => setTimeout(start, 50));
  process.once('SIGTERM', () => { child.kill('SIGKILL'); process.exit(); });
};
start();
`;

const cleanUp: (() => void)[] = [];
afterEach(() => {
  for (const clean of cleanUp.splice(0).reverse()) clean();
});

/** A repository, a clone of it that runs its first version in two processes, and commands for both. */
async function makeShop(first: Version) {
  const folder = mkdtempSync(join(tmpdir(), 'jani-update-'));
  cleanUp.push(() => rmSync(folder, { recursive: true, force: true, maxRetries: 10 }));
  const [author, root] = [join(folder, 'author'), join(folder, 'shop')];
  const run = (cwd: string, command: string, ...parameters: string[]) => {
    const result = spawnSync(command, parameters, { cwd, encoding: 'utf8' });
    expect(result.status, `${command} ${parameters.join(' ')}: ${result.stdout}${result.stderr}`).toBe(0);
    return result.stdout.trim();
  };
  const commit = (cwd: string) => {
    run(cwd, 'git', 'add', '--all');
    run(
      cwd,
      'git',
      '-c',
      'user.name=Amina',
      '-c',
      'user.email=a@example.com',
      'commit',
      '--quiet',
      '-m',
      'Next',
    );
  };
  const publish = (version: Version) => {
    writeFileSync(join(author, 'version.json'), JSON.stringify(version));
    commit(author);
  };
  mkdirSync(join(author, 'scripts'), { recursive: true });
  mkdirSync(join(author, 'service'));
  for (const name of ['update.mjs', 'build/prepare.mjs', 'releases/releases.mjs', 'releases/take-turn.mjs'])
    cpSync(join(import.meta.dirname, '..', name), join(author, 'scripts', name));
  writeFileSync(join(author, 'scripts/build.mjs'), buildScript);
  writeFileSync(
    join(author, 'scripts/backup.mjs'),
    `import { appendFileSync } from 'node:fs';\nappendFileSync('backups', 'one\\n');`,
  );
  writeFileSync(join(author, 'service/check-version.js'), checkVersion);
  writeFileSync(join(author, 'service/main.js'), main);
  writeFileSync(join(author, 'package.json'), '{"type":"module"}');
  writeFileSync(join(author, '.gitignore'), '/build\nbackups\ndatabase.json\nprocess-*\n.env\n');
  run(folder, 'git', 'init', '--quiet', '--initial-branch=main', 'author');
  publish(first);
  run(folder, 'git', 'clone', '--quiet', 'author', 'shop');
  run(root, process.execPath, 'scripts/build.mjs');

  const ports = [await freePort(), await freePort()];
  const children: ChildProcess[] = ports.map((port) =>
    spawn(process.execPath, ['--input-type=module', '--eval', supervisor], {
      cwd: root,
      stdio: 'ignore',
      env: { ...process.env, PORT: String(port) },
    }),
  );
  for (const child of children) cleanUp.push(() => child.kill('SIGTERM'));
  // The stand-in keeps its applied migrations in the clone.
  writeFileSync(join(root, 'database.json'), JSON.stringify(first.migrations));
  const serving = () =>
    Promise.all(
      ports.map((port) =>
        fetch(`http://127.0.0.1:${port}/`).then(
          (answer) => answer.text(),
          () => null,
        ),
      ),
    );
  await until(async () => (await serving()).every((id) => id === first.id), 'the shop runs');

  const update = (settings: Record<string, string> = {}) => {
    const environment = {
      ...process.env,
      UPDATE_PORTS: ports.join(','),
      UPDATE_RESTART: 'kill $(cat process-$PORT)',
      UPDATE_TIMEOUT: '2',
      ...settings,
    };
    const child = spawn(process.execPath, ['scripts/update.mjs'], { cwd: root, env: environment });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text));
    return new Promise<{ code: number | null; output: string }>((done) =>
      child.once('close', (code) => done({ code, output })),
    );
  };
  return {
    root,
    publish,
    update,
    serving,
    commitHere: () => commit(root),
    current: () => readFileSync(join(root, 'build/current'), 'utf8').trim(),
    version: () => (JSON.parse(readFileSync(join(root, 'version.json'), 'utf8')) as Version).id,
    backups: () => (existsSync(join(root, 'backups')) ? readFileSync(join(root, 'backups'), 'utf8') : ''),
  };
}

const keepsWorking = '-- Earlier versions keep working: a new table.\n';
const one: Version = { id: 'one', migrations: { '1.sql': 'select 1;' } };
const two: Version = { id: 'two', migrations: { ...one.migrations, '2.sql': keepsWorking } };

test('updates one process after the other, so that one always answers', async () => {
  const shop = await makeShop(one);
  shop.publish(two);
  let isDone = false;
  const gaps: (string | null)[][] = [];
  const watching = (async () => {
    while (!isDone) {
      const ids = await shop.serving();
      if (ids.every((id) => id === null)) gaps.push(ids);
    }
  })();
  const { code, output } = await shop.update();
  isDone = true;
  await watching;
  expect(code, output).toBe(0);
  expect(await shop.serving()).toEqual(['two', 'two']);
  expect(gaps).toEqual([]);
  expect(shop.backups()).toBe('one\n');

  const again = await shop.update();
  expect(again.output).toContain('The shop runs the newest version.');
  expect(shop.backups(), 'nothing was done').toBe('one\n');
}, 60_000);

test.each(['ends', 'is not ready'] as const)(
  'goes back when the new version %s',
  async (failure) => {
    const shop = await makeShop(one);
    shop.publish({ ...two, failure });
    const { code, output } = await shop.update();
    expect(code, output).toBe(1);
    expect(output).toContain('The former version runs again.');
    expect(await shop.serving()).toEqual(['one', 'one']);
    expect([shop.current(), shop.version()]).toEqual(['one', 'one']);
    // The next version is well, and its database has the migration already.
    shop.publish({ ...two, id: 'three' });
    expect((await shop.update()).code).toBe(0);
    expect(await shop.serving()).toEqual(['three', 'three']);
  },
  60_000,
);

test('stays where the former version does not work with the database any more, and says so', async () => {
  const shop = await makeShop(one);
  shop.publish({
    ...two,
    migrations: { ...one.migrations, '2.sql': 'drop table orders;' },
    failure: 'is not ready',
  });
  const { code, output } = await shop.update();
  expect(code, output).toBe(1);
  expect(output).toContain('all processes restart at once');
  expect(output).toMatch(/The database is that of the new version[\s\S]*npm run restore -- --replace FILE/);
  expect(shop.current()).toBe('two');
}, 60_000);

test('changes nothing where an update is refused or cannot be built', async () => {
  const shop = await makeShop(one);
  const expectRefusal = async (sentence: RegExp, settings?: Record<string, string>) => {
    const { code, output } = await shop.update(settings);
    expect(output).toMatch(sentence);
    expect(code).toBe(1);
    expect(await shop.serving()).toEqual(['one', 'one']);
    expect([shop.current(), shop.version(), shop.backups()]).toEqual(['one', 'one', '']);
  };
  shop.publish({ ...two, isBuildBroken: true });
  await expectRefusal(/The new version cannot be built/);
  await expectRefusal(/Set UPDATE_RESTART, the command/, { UPDATE_RESTART: '' });
  writeFileSync(join(shop.root, 'database.json'), JSON.stringify({ ...one.migrations, '9.sql': '' }));
  shop.publish(two);
  await expectRefusal(/The new version was not started/);
  writeFileSync(join(shop.root, 'package.json'), '{"type":"module","name":"changed"}');
  await expectRefusal(/These files were changed here[\s\S]*package\.json/);
  shop.commitHere();
  await expectRefusal(/has commits that the fetched branch does not have/);
}, 60_000);

test('an update that continues an interrupted one goes back to where that one began', async () => {
  const shop = await makeShop(one);
  shop.publish({ ...two, failure: 'is not ready' });
  // Ends the command after the switch, before the first restart.
  expect((await shop.update({ UPDATE_RESTART: 'kill -9 $PPID' })).code).toBe(null);
  expect([shop.current(), await shop.serving()]).toEqual(['two', ['one', 'one']]);
  // One that is refused leaves the sources of the current release.
  shop.publish({ ...two, id: 'three', isBuildBroken: true });
  expect((await shop.update()).output).toContain('The new version cannot be built');
  expect([shop.current(), shop.version()]).toEqual(['two', 'two']);
  shop.publish({ ...two, id: 'four', failure: 'is not ready' });
  const { code, output } = await shop.update();
  expect(code, output).toBe(1);
  expect(output).toContain('The former version runs again.');
  expect(await shop.serving()).toEqual(['one', 'one']);
  expect([shop.current(), shop.version()]).toEqual(['one', 'one']);
}, 60_000);
