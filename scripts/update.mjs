// `npm run update`: fetches the newest version of the branch, installs, builds, backs up, and restarts the shop on it, process by process.
// If the new version does not start, the former one is started again. Until the switch running processes are not affected. The next
// update continues an interrupted one.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { checkNode, readOwnSettings, root } from './build/prepare.mjs';
import {
  currentRelease,
  findRelease,
  nextRelease,
  releasedPlatform,
  switchTo,
} from './releases/releases.mjs';
import { takeTurn } from './releases/take-turn.mjs';

/** Default of UPDATE_TIMEOUT, in seconds: includes the migration of a large database. */
const defaultTimeout = 300;
/** How long a new version that cannot start may have the embedded database open. */
const inUseMs = 20_000;

class UpdateRefused extends Error {}

const say = (text) => console.log(`\n${text}`);

function git(...parameters) {
  const { status, stdout, stderr } = spawnSync('git', parameters, { cwd: root, encoding: 'utf8' });
  if (status !== 0) throw new UpdateRefused(`git ${parameters.join(' ')} failed: ${stderr.trim()}`);
  return stdout.trim();
}
const gitSays = (...parameters) => spawnSync('git', parameters, { cwd: root }).status === 0;

/** Runs a command with its output on this terminal, and returns its exit code. */
function run(command, parameters, options = {}) {
  return new Promise((done) => {
    const child = spawn(command, parameters, { cwd: root, stdio: 'inherit', ...options });
    child.once('error', () => done(1));
    child.once('exit', (code) => done(code ?? 1));
  });
}
// Not imported: the scripts of the fetched version may differ from those that this process has read.
const runScript = (name, ...parameters) =>
  run(process.execPath, [join(root, 'scripts', `${name}.mjs`), ...parameters]);

/** Fetches the branch, which can be fast-forwarded. Returns its newest commit. */
function fetchNewest() {
  const changed = git('status', '--porcelain', '--untracked-files=no');
  if (changed)
    throw new UpdateRefused(`These files were changed here; commit or undo that first:\n${changed}`);
  if (!gitSays('symbolic-ref', '--quiet', 'HEAD')) {
    throw new UpdateRefused('This folder is at a commit, not on a branch: git switch main first.');
  }
  if (!gitSays('rev-parse', '--quiet', '--verify', '@{upstream}')) {
    throw new UpdateRefused(
      'This branch follows none of another repository: git branch --set-upstream-to=origin/main first.',
    );
  }
  git('fetch', '--quiet');
  const newest = git('rev-parse', '@{upstream}');
  if (!gitSays('merge-base', '--is-ancestor', 'HEAD', newest)) {
    throw new UpdateRefused(
      'This folder has commits that the fetched branch does not have, so it cannot be updated by a fast-forward.',
    );
  }
  return newest;
}

const originFile = join(root, 'build', 'updating-from');

/** The commit and the release from which the update began, which an interrupted one has noted. */
function readOrigin() {
  if (existsSync(originFile)) return JSON.parse(readFileSync(originFile, 'utf8'));
  const release = currentRelease(root);
  return { commit: git('rev-parse', 'HEAD'), release: release && basename(release) };
}

const forgetOrigin = () => rmSync(originFile, { force: true });

const migrations = 'supabase/migrations';

/** Whether the former version works with a database on which the next one has started. */
function formerKeepsWorking(former, next) {
  const isKept = (folder, name) =>
    existsSync(join(former, folder, name)) ||
    readFileSync(join(next, folder, name), 'utf8').startsWith('-- Earlier versions keep working');
  return [releasedPlatform, migrations].every((folder) =>
    readdirSync(join(next, folder)).every((name) => isKept(folder, name)),
  );
}

/** Where the processes listen, and how they are restarted. */
function readProcesses() {
  const { HOST, PORT, UPDATE_PORTS, UPDATE_RESTART, UPDATE_TIMEOUT } = process.env;
  const host = HOST?.trim() || '127.0.0.1';
  const reachable = ['0.0.0.0', '::'].includes(host) ? '127.0.0.1' : host;
  const ports = (UPDATE_PORTS?.trim() || PORT?.trim() || '3000').split(/[\s,]+/);
  return {
    restartCommand: UPDATE_RESTART?.trim() || null,
    timeoutMs: Number(UPDATE_TIMEOUT?.trim() || defaultTimeout) * 1000,
    processes: ports.map((port) => ({
      port,
      url: `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`,
    })),
  };
}

const get = (url) => fetch(url, { signal: AbortSignal.timeout(10_000), redirect: 'follow' });
const isRunning = ({ url }) =>
  get(`${url}/healthz`).then(
    () => true,
    () => false,
  );

/** The name of the release that a process runs; null if it does not say. */
const releaseOf = ({ url }) =>
  get(`${url}/readyz`).then(
    (answer) => answer.headers.get('x-release'),
    () => null,
  );

/** Restarts a process and waits until it serves the release. Returns a problem, or null. */
async function restart({ port, url }, { command, timeoutMs }, isExpected) {
  const environment = { ...process.env, PORT: port };
  // It may fail where a process has just ended by itself, and will be started again.
  const code = await run(command, [], { shell: true, env: environment });
  const deadline = Date.now() + timeoutMs;
  let last = code === 0 ? 'it did not answer' : `the command "${command}" failed, and it did not answer`;
  while (Date.now() < deadline) {
    await new Promise((done) => setTimeout(done, 250));
    const answer = await get(`${url}/readyz`).catch(() => null);
    if (!answer) continue;
    if (answer.ok && isExpected(answer.headers.get('x-release'))) return checkPage(url);
    last = answer.ok ? 'another version answered' : `it answered ${answer.status}`;
  }
  return `${last} for ${timeoutMs / 1000} seconds`;
}

/** The home page with its scripts and style sheets. */
async function checkPage(url) {
  const page = await get(url).catch((error) => ({ ok: false, status: String(error) }));
  if (!page.ok) return `the home page answered ${page.status}`;
  for (const [path] of (await page.text()).matchAll(/\/assets\/[\w.-]+\.(?:js|css)/g)) {
    const file = await get(url + path).catch((error) => ({ ok: false, status: String(error) }));
    if (!file.ok) return `${path} answered ${file.status}`;
  }
  return null;
}

/** Restarts the processes one after another, or at once. Returns the first problem, with the processes that were restarted. */
async function restartAll(processes, how, isExpected, isAtOnce) {
  const restarted = [];
  const start = async (one) => {
    restarted.push(one);
    const problem = await restart(one, how, isExpected);
    return problem && `The process on port ${one.port} is not well: ${problem}.`;
  };
  if (isAtOnce)
    return { problem: (await Promise.all(processes.map(start))).find(Boolean) ?? null, restarted };
  for (const one of processes) {
    const problem = await start(one);
    if (problem) return { problem, restarted };
  }
  return { problem: null, restarted };
}

/** Asks a release whether it can run on the database: 0 it can, 1 it cannot, 2 a process has the embedded database open. */
function checkDatabase(release) {
  const program = JSON.stringify(pathToFileURL(join(release, 'service', 'check-version.js')).href);
  const script = `await (await import(${program})).checkVersion(${JSON.stringify(root)})`;
  return run(process.execPath, ['--input-type=module', '--eval', script]);
}

/** Whether the former version can still run on the database, after the next one has tried. */
async function formerFits(former) {
  // A process that has the embedded database open for longer has got past its migrations.
  const deadline = Date.now() + inUseMs;
  for (;;) {
    const answer = await checkDatabase(former);
    if (answer !== 2 || Date.now() > deadline) return answer === 0;
    await new Promise((done) => setTimeout(done, 250));
  }
}

async function update() {
  checkNode();
  readOwnSettings();
  const isHosted = Boolean(process.env.SUPABASE_URL?.trim());
  const { processes, restartCommand, timeoutMs } = readProcesses();
  const how = { command: restartCommand, timeoutMs };
  const isUp = await Promise.all(processes.map(isRunning));
  const running = processes.filter((_, index) => isUp[index]);
  if (running.length > 0 && !restartCommand) {
    throw new UpdateRefused(
      'Set UPDATE_RESTART, the command that restarts the process on port $PORT, such as: sudo systemctl restart jani',
    );
  }
  const newest = fetchNewest();
  const origin = readOrigin();
  const former = origin.release && findRelease(root, origin.release);
  writeFileSync(originFile, JSON.stringify(origin));
  const began = git('rev-parse', 'HEAD');
  git('merge', '--quiet', '--ff-only', newest);
  /** Leaves the sources of the release that is current: an interrupted update may have switched already. */
  const resetSources = () => {
    const current = currentRelease(root);
    const isSwitched = (current && basename(current)) !== origin.release;
    git('reset', '--quiet', '--keep', isSwitched ? began : origin.commit);
    if (!isSwitched) forgetOrigin();
  };

  let next;
  // Processes may run other releases than the current one, after an interrupted update.
  let formerWorks = false;
  try {
    if ((await runScript('build', '--next')) !== 0)
      throw new UpdateRefused('The new version cannot be built.');
    next = nextRelease(root);
    const releases = await Promise.all(running.map(releaseOf));
    if (next === currentRelease(root) && releases.every((release) => release === basename(next))) {
      forgetOrigin();
      say('The shop runs the newest version.');
      return;
    }
    formerWorks = [origin.release, ...releases].every((release) => {
      const folder = release && findRelease(root, release);
      return folder && formerKeepsWorking(folder, next);
    });
    if (!isHosted && (await checkDatabase(next)) === 1)
      throw new UpdateRefused('The new version was not started.');
    if (isHosted && !process.argv.includes('--project-is-updated')) {
      say('Built. Now update the project:\n');
      console.log('  npx supabase db push\n  npx supabase functions deploy mobile-money\n');
      console.log('Then: npm run update -- --project-is-updated');
      return;
    }
    if (!isHosted && former && (await runScript('backup')) !== 0)
      throw new UpdateRefused('Without a backup the shop is not updated.');
  } catch (error) {
    resetSources();
    throw error;
  }

  switchTo(root, basename(next));
  if (running.length === 0) {
    forgetOrigin();
    say(`The shop is updated to ${newest.slice(0, 8)}. It does not run: start it.`);
    return;
  }
  const isAtOnce = running.length > 1 && !formerWorks;
  if (isAtOnce) say('The former version does not work with the new database: all processes restart at once.');
  const isNext = (release) => release === basename(next);
  const { problem, restarted } = await restartAll(running, how, isNext, isAtOnce);
  if (!problem) {
    forgetOrigin();
    say(`The shop is updated to ${newest.slice(0, 8)}.`);
    return;
  }

  say(problem);
  const hasFormer = Boolean(former) && former !== next;
  if (!hasFormer || !(formerWorks || isHosted || (await formerFits(former)))) {
    forgetOrigin();
    throw new UpdateRefused(
      `${hasFormer ? 'The database is that of the new version, and the former one does not work with it' : 'There is no former version to go back to'}. So the new one stays; its log has the cause. Going back loses what customers wrote since the backup: stop the shop, git reset --keep ${origin.commit}, npm run build, npm run restore -- --replace FILE.`,
    );
  }
  switchTo(root, basename(former));
  resetSources();
  const back = await restartAll(restarted, how, (release) => !isNext(release), true);
  throw new UpdateRefused(
    back.problem
      ? `The former version is current again, but does not run: ${back.problem}`
      : 'The former version runs again. Nothing is lost.',
  );
}

const giveBack = await takeTurn(join(root, 'build', '.updating'), () =>
  say('Waiting for another update ...'),
);
try {
  await update();
} catch (error) {
  if (!(error instanceof UpdateRefused)) throw error;
  console.error(`\nThe shop was not updated. ${error.message}`);
  process.exitCode = 1;
} finally {
  giveBack();
}
