// Watchdog: ends a process whose main thread is blocked by an endless computation. The embedded database runs in the main thread,
// so nothing there can stop an endless statement, not even PostgreSQL's statement_timeout, whose signal
// would need the event loop.
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import type { Log } from './log.ts';

/** Data of the watchdog thread. */
export interface WatchedLoop {
  /** A counter that the main thread increases with a timer. */
  ticks: Int32Array;
  maxCpuMs: number;
  everyMs: number;
}

const fiveMinutes = 5 * 60 * 1000;

/**
 * Watches the calling thread from another one, and kills the process (SIGKILL) when it has used `maxCpuMs` of CPU time without
 * running a timer. CPU time, because a process on a sleeping machine, or one that waits for a slow disk or a busy CPU, uses none.
 * @param maxCpuMs Default: five minutes, longer than any computation of the shop
 * @returns when the watchdog runs, or cannot be started: the shop works without it
 */
export async function watchLoop(log: Log, { maxCpuMs = fiveMinutes, everyMs = 5000 } = {}): Promise<void> {
  const ticks = new Int32Array(new SharedArrayBuffer(4));
  setInterval(() => Atomics.add(ticks, 0, 1), everyMs).unref();
  // The built thread is beside this file; in development it runs from its source.
  const extension = extname(import.meta.url) === '.ts' ? '.mjs' : '.js';
  const watched: WatchedLoop = { ticks, maxCpuMs, everyMs };
  const thread = new Worker(fileURLToPath(new URL(`./watch-loop-thread${extension}`, import.meta.url)), {
    workerData: watched,
    // Node's options of this process do not apply to the thread.
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: 8, maxYoungGenerationSizeMb: 1, stackSizeMb: 1 },
  });
  await new Promise<void>((done) => {
    thread.once('message', () => done());
    thread.once('error', (error) => {
      log.warn({ error: String(error) }, 'the watchdog thread could not be started');
      done();
    });
  });
  thread.unref();
}
