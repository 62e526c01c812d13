// Starts a shop for one story, as `npm start` does, on free ports and in a temporary folder.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { copyMigratedDatabase } from '@jani-juice/backend/testing';
import { shopMigrations } from '../databases/shop-migrations.ts';
import { freePort } from './free-port.ts';
import { startArgumentsOf } from './start-arguments.ts';

export interface OpenShop {
  url: string;
  simulatorUrl: string;
  /** The API keys of its services. */
  keys(): Promise<{ publishable: string; secret: string }>;
  /** The outbox folder: e-mails and text messages without a provider. */
  outbox: string;
  /** The server's output so far. */
  output(): string;
  /** Warnings and errors of the server's log. */
  problems(): string[];
  /** Its process, while it runs. */
  pid(): number | undefined;
  /** Kills the server with SIGKILL. */
  kill(): Promise<void>;
  /** Starts it again on the same data and ports. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Opens a shop.
 * @param environment further settings, such as DATABASE_URL
 * @param options.fromNothing creates the embedded database in its own first start, as for every owner. This takes seconds:
 *   by default an empty, migrated database is copied
 * @param options.dataDir a folder shared by processes on one database, not deleted here. Default: its own
 * @param options.node the program. Default: this process's Node
 * @param options.root folder of another commit's project. Default: this one
 */
export async function openShop(
  environment: Record<string, string> = {},
  {
    fromNothing = false,
    dataDir,
    node = process.execPath,
    root = join(import.meta.dirname, '../..'),
  }: { fromNothing?: boolean; dataDir?: string; node?: string; root?: string } = {},
): Promise<OpenShop> {
  const folder = dataDir ?? (await mkdtemp(join(tmpdir(), 'jani-shop-')));
  if (!fromNothing && !environment.DATABASE_URL)
    await copyMigratedDatabase(join(folder, 'database'), shopMigrations);
  const [port, simulatorPort] = [await freePort(), await freePort()];
  const url = `http://localhost:${port}`;
  let output = '';
  let server: ChildProcess | null = null;
  let exited: Promise<void> = Promise.resolve();

  const start = async () => {
    const child = spawn(node, startArgumentsOf(root), {
      cwd: root,
      env: {
        ...process.env,
        NODE_ENV: 'production',
        PORT: String(port),
        SIMULATOR_PORT: String(simulatorPort),
        DATA_DIR: folder,
        ...environment,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    server = child;
    exited = new Promise((done) => child.once('exit', () => done()));
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk: Buffer) => {
        output += chunk.toString();
      });
    }
    await until(
      async () => {
        if (child.exitCode !== null || child.signalCode !== null)
          throw new Error(`the shop process exited:\n${output}`);
        return (await fetch(`${url}/readyz`)).ok;
      },
      'the shop is ready',
      180_000,
    );
  };
  const end = async (signal: NodeJS.Signals) => {
    server?.kill(signal);
    await exited;
  };
  await start();
  return {
    url,
    simulatorUrl: `http://127.0.0.1:${simulatorPort}`,
    keys: async () => JSON.parse(await readFile(join(folder, 'keys.json'), 'utf8')),
    outbox: join(folder, 'outbox'),
    output: () => output,
    problems: () =>
      output.split('\n').filter((line) => /"level":"(error|fatal)"/.test(line) || /^\s+at /.test(line)),
    pid: () => server?.pid,
    kill: () => end('SIGKILL'),
    restart: start,
    async close() {
      await end('SIGTERM');
      // A program that the shop started may write for a moment longer.
      if (dataDir === undefined) await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** Waits until a condition holds. Throws an error with its description otherwise. */
export async function until(holds: () => Promise<boolean>, what: string, withinMs = 60_000): Promise<void> {
  const begun = Date.now();
  const deadline = begun + withinMs;
  let last: unknown;
  while (Date.now() < deadline) {
    try {
      if (await holds()) return;
    } catch (error) {
      if (error instanceof Error && error.message.startsWith('the shop process exited')) throw error;
      last = error;
    }
    // Checks less often the longer it takes.
    await new Promise((done) => setTimeout(done, Math.min(250, 50 + (Date.now() - begun) / 20)));
  }
  throw new Error(`timed out waiting until ${what}${last ? `: ${last}` : ''}`);
}
