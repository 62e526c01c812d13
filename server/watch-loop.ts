// Ends a process that is caught in a computation without end. The embedded database runs in the thread that does everything
// else: a statement that never ends can be stopped by nobody there, not even by PostgreSQL's statement_timeout, whose signal
// would have to come in between.
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import type { Log } from './log.ts';

/** What the watching thread is given. */
export interface WatchedLoop {
  /** One number, which grows whenever the watched thread comes to its timers. */
  turns: Int32Array;
  mostProcessorMs: number;
  everyMs: number;
}

const fiveMinutes = 5 * 60 * 1000;

/**
 * Watches the thread that calls it from another one, for as long as the process lasts. It is ended (SIGKILL) when it has used
 * so much of the processor without once coming to its timers. Processor time, because that is what only a busy process
 * uses: one that sleeps with its machine, or waits for a slow disk or for its share of a busy processor, is left in peace.
 * @param mostProcessorMs five minutes unless told: nothing that the shop does takes so long
 * @returns when it is watched, or when there can be no such thread: all else works as well without
 */
export async function watchLoop(
  log: Log,
  { mostProcessorMs = fiveMinutes, everyMs = 5000 } = {},
): Promise<void> {
  const turns = new Int32Array(new SharedArrayBuffer(4));
  setInterval(() => Atomics.add(turns, 0, 1), everyMs).unref();
  // Built, it lies beside this file; in development it is run from its source.
  const extension = extname(import.meta.url) === '.ts' ? '.mjs' : '.js';
  const watched: WatchedLoop = { turns, mostProcessorMs, everyMs };
  const thread = new Worker(fileURLToPath(new URL(`./watch-loop-thread${extension}`, import.meta.url)), {
    workerData: watched,
    // What this process was started with is not for the thread.
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: 8, maxYoungGenerationSizeMb: 1, stackSizeMb: 1 },
  });
  await new Promise<void>((done) => {
    thread.once('message', () => done());
    thread.once('error', (error) => {
      log.warn({ error: String(error) }, 'nobody watches for computations without end');
      done();
    });
  });
  thread.unref();
}
