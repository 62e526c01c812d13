// A process of the built shop that can be killed and restarted.
import { type ChildProcess, spawn } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { memoryEnvironment } from '../../scripts/deployment/memory-settings.mjs';
import { currentRelease } from '../../scripts/releases/releases.mjs';
import { freePort } from '../../scripts/tests/free-port.ts';

export const root = join(import.meta.dirname, '../..');

export interface ShopProcess {
  name: string;
  port: number;
  /** Whether it is ready. */
  isUp(): boolean;
  /** The id of its process; undefined before its first start. */
  pid(): number | undefined;
  /** Kills it immediately with SIGKILL. */
  kill(): void;
  /**
   * Starts it; resolves with the duration once it is ready.
   * @param release folder of the release that it runs. Default: the current one
   */
  start(release?: string): Promise<number>;
  /** Ends it as a service manager does, and waits. */
  end(): Promise<void>;
  stop(): Promise<void>;
}

/**
 * Creates a process of the shop without starting it.
 * @param name for messages
 * @param logFile for its output
 * @param environment its settings, except the port
 * @param maxFiles its limit of open files. Default: this process's
 */
export async function makeShopProcess(
  name: string,
  logFile: string,
  environment: Record<string, string>,
  { maxFiles }: { maxFiles?: number } = {},
): Promise<ShopProcess> {
  const port = await freePort();
  const log = createWriteStream(logFile, { flags: 'a' });
  let child: ChildProcess | null = null;
  let ended: Promise<void> = Promise.resolve();
  let isUp = false;
  const memorySettings = pathToFileURL(join(root, 'scripts/deployment/memory-settings.mjs')).href;

  async function start(release = currentRelease(root)): Promise<number> {
    const startedAt = performance.now();
    await ended;
    if (!release) throw new Error('the shop is not built: npm run build');
    const main = pathToFileURL(join(release, 'service/main.js')).href;
    const script = `
      (await import(${JSON.stringify(memorySettings)})).applyMemorySettings();
      await (await import(${JSON.stringify(main)})).main(${JSON.stringify(root)});
    `;
    const limit = maxFiles === undefined ? ':' : `ulimit -n ${maxFiles}`;
    const command = [process.execPath, '--input-type=module', '--eval', script];
    const started = spawn('sh', ['-c', `${limit} && exec "$@"`, 'sh', ...command], {
      env: {
        ...memoryEnvironment,
        ...process.env,
        NODE_ENV: 'production',
        PORT: String(port),
        ...environment,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child = started;
    ended = new Promise((done) =>
      started.once('exit', () => {
        isUp = false;
        done();
      }),
    );
    for (const stream of [started.stdout, started.stderr]) stream.on('data', (chunk) => log.write(chunk));
    while (!(await isReady(port))) {
      // Killed during its start.
      if (started.signalCode !== null) return start(release);
      if (started.exitCode !== null) {
        const last = (await readFile(logFile, 'utf8')).slice(-2000);
        throw new Error(`${name} ended by itself (${logFile}):\n${last}`);
      }
      if (performance.now() - startedAt > 120_000) throw new Error(`${name} was not ready in two minutes`);
      await new Promise((done) => setTimeout(done, 25));
    }
    isUp = true;
    return performance.now() - startedAt;
  }

  return {
    name,
    port,
    isUp: () => isUp,
    pid: () => child?.pid,
    kill() {
      isUp = false;
      child?.kill('SIGKILL');
    },
    start,
    async end() {
      child?.kill('SIGTERM');
      await ended;
    },
    async stop() {
      child?.kill('SIGKILL');
      await ended;
      await new Promise((done) => log.end(done));
    },
  };
}

async function isReady(port: number): Promise<boolean> {
  return fetch(`http://127.0.0.1:${port}/readyz`, { signal: AbortSignal.timeout(2000) }).then(
    (answer) => answer.ok,
    () => false,
  );
}
