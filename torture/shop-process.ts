// One process of the built shop, which can be killed as a power cut would and started again.
import { type ChildProcess, spawn } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { freePort } from '../scripts/free-port.ts';

export const root = join(import.meta.dirname, '..');

export interface ShopProcess {
  name: string;
  port: number;
  /** Whether it answers and is ready. */
  isUp(): boolean;
  /** The id of its process; undefined before its first start. */
  pid(): number | undefined;
  /** Ends it at once: nothing after this call is done by it. */
  kill(): void;
  /** Starts it again; resolves when it is ready, to how long that took. */
  start(): Promise<number>;
  stop(): Promise<void>;
}

/**
 * Makes a process of the shop; it is not started yet.
 * @param name what its log is called
 * @param logFile where what it writes goes
 * @param environment its settings, besides its port
 */
export async function makeShopProcess(
  name: string,
  logFile: string,
  environment: Record<string, string>,
): Promise<ShopProcess> {
  const port = await freePort();
  const log = createWriteStream(logFile, { flags: 'a' });
  let child: ChildProcess | null = null;
  let ended: Promise<void> = Promise.resolve();
  let isUp = false;
  const main = pathToFileURL(join(root, 'build/service/main.js')).href;

  async function start(): Promise<number> {
    const startedAt = performance.now();
    await ended;
    const script = `const { main } = await import(${JSON.stringify(main)}); await main(${JSON.stringify(root)});`;
    const started = spawn(process.execPath, ['--input-type=module', '--eval', script], {
      env: { ...process.env, NODE_ENV: 'production', PORT: String(port), ...environment },
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
      // Killed on its way up.
      if (started.signalCode !== null) return start();
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
