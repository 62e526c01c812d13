// The thread that watches the one in which everything happens (watch-loop.ts). Plain JavaScript: the loader of development
// does not reach into threads.
import { writeSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';

/** @type {import('./watch-loop.ts').WatchedLoop} */
const { turns, mostProcessorMs, everyMs } = workerData;
let seen = Atomics.load(turns, 0);
let usedBefore = process.cpuUsage();

setInterval(() => {
  const now = Atomics.load(turns, 0);
  if (now !== seen) {
    seen = now;
    usedBefore = process.cpuUsage();
    return;
  }
  const { user, system } = process.cpuUsage(usedBefore);
  if ((user + system) / 1000 < mostProcessorMs) return;
  try {
    // What a thread writes otherwise goes through the one that is caught.
    const time = new Date().toISOString();
    const msg = 'the shop is caught in a computation without end; it ends and has to be started again';
    writeSync(1, `${JSON.stringify({ level: 'fatal', time, msg })}\n`);
  } finally {
    // Nothing gentler reaches it.
    process.kill(process.pid, 'SIGKILL');
  }
}, everyMs);

parentPort?.postMessage('watching');
