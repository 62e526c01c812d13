// Runs background jobs at their intervals. `shop-jobs.ts` lists them.
import type { Log } from '../monitoring/log.ts';

const RETRY_AFTER_MS = 60_000;

export interface Job {
  name: string;
  everyMs: number;
  /** Delay of the first run after the start. Default: `everyMs`, but at most a second. */
  firstAfterMs?: number;
  run(): Promise<void>;
  /** Aborts a long run. */
  stop?(): Promise<void>;
}

/** Counts runs of jobs. */
interface JobMetrics {
  addJob(name: string, everyMs: number): void;
  observeJob(name: string, seconds: number, hasFailed: boolean): void;
}

/**
 * Runs each job at its interval, never twice concurrently. A failure is logged and retried at the next interval, after a
 * minute at most.
 * @returns a function that stops the jobs and waits for those that are running
 */
export function startJobs(jobs: readonly Job[], log: Log, metrics?: JobMetrics): () => Promise<void> {
  let isStopped = false;
  const timers = new Map<Job, NodeJS.Timeout>();
  const running = new Map<Job, Promise<void>>();
  const failed = new Set<Job>();
  const schedule = (job: Job, delayMs: number) => {
    if (isStopped) return;
    const timer = setTimeout(() => {
      const begun = performance.now();
      const observe = (hasFailed: boolean) =>
        metrics?.observeJob(job.name, (performance.now() - begun) / 1000, hasFailed);
      const run = job
        .run()
        .then(
          () => {
            observe(false);
            if (failed.delete(job)) log.info({ job: job.name }, 'a job succeeded again');
          },
          (error: unknown) => {
            observe(true);
            // Logged once, not for every retry of a long outage.
            if (!failed.has(job))
              log.error({ job: job.name, error: String(error) }, 'a job failed and will be retried');
            failed.add(job);
          },
        )
        .finally(() => {
          running.delete(job);
          // An hourly job is retried soon after a temporary failure.
          schedule(job, failed.has(job) ? Math.min(job.everyMs, RETRY_AFTER_MS) : job.everyMs);
        });
      running.set(job, run);
    }, delayMs);
    timers.set(job, timer);
  };
  for (const { name, everyMs } of jobs) metrics?.addJob(name, everyMs);
  for (const job of jobs) schedule(job, job.firstAfterMs ?? Math.min(job.everyMs, 1000));
  return async () => {
    isStopped = true;
    for (const timer of timers.values()) clearTimeout(timer);
    await Promise.all(jobs.map((job) => job.stop?.()));
    await Promise.all(running.values());
  };
}
