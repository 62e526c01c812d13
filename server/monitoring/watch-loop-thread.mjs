// The watchdog thread of the main thread (watch-loop.ts). Plain JavaScript, because the TypeScript loader of development
// does not apply to threads.
import { writeSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';

/** @type {import('./watch-loop.ts').WatchedLoop} */
const { ticks, maxCpuMs, everyMs } = workerData;
let seen = Atomics.load(ticks, 0);
let usedBefore = process.cpuUsage();

setInterval(() => {
  const now = Atomics.load(ticks, 0);
  if (now !== seen) {
    seen = now;
    usedBefore = process.cpuUsage();
    return;
  }
  const { user, system } = process.cpuUsage(usedBefore);
  if ((user + system) / 1000 < maxCpuMs) return;
  try {
    // Written directly, because other output of a thread passes through the blocked main thread.
    const time = new Date().toISOString();
    const msg =
      'the main thread is blocked by an endless computation; the process ends and must be restarted';
    writeSync(1, `${JSON.stringify({ level: 'fatal', time, msg })}\n`);
  } finally {
    // A blocked thread handles no other signal.
    process.kill(process.pid, 'SIGKILL');
  }
}, everyMs);

parentPort?.postMessage('watching');
