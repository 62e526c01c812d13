// The image worker: a process that does one job after the other until it is killed (by image-process.ts, which starts it).
import { writeFileSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import { doImageJob } from './decode-images.ts';
import type { ImageJob, ImageResult } from './image-job.ts';

const maxBytes = Number(process.argv[2]);
const maxCpuMs = Number(process.argv[3]);

try {
  setPriority(constants.priority.PRIORITY_BELOW_NORMAL);
  // Where the whole machine runs out of memory, Linux ends this process and not the shop.
  if (process.platform === 'linux') writeFileSync('/proc/self/oom_score_adj', '1000');
} catch {
  // The system may not allow it.
}

const report = (result: ImageResult) => process.send?.(result);

// Decoders work in threads, so that this timer runs. The kernel enforces the limit of memory earlier where it can.
let cpuBefore: NodeJS.CpuUsage | null = null;
setInterval(() => {
  if (!cpuBefore) return;
  const { user, system } = process.cpuUsage(cpuBefore);
  if (process.memoryUsage.rss() > maxBytes) report({ outcome: 'out of memory' });
  else if ((user + system) / 1000 > maxCpuMs) report({ outcome: 'out of time' });
}, 50);

process.on('message', async (job: ImageJob) => {
  cpuBefore = process.cpuUsage();
  const result = await doImageJob(job);
  cpuBefore = null;
  report(result);
});
// The shop has ended. An exit would wait for the decoder.
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
