// Work that nobody asks for: open payments are asked about, unpaid orders give their units back, old rows go.
import type { Log } from './log.ts';

const TRIED_AGAIN_AFTER_MS = 60_000;

export interface Job {
  name: string;
  everyMs: number;
  /** How long after the start it runs first; a second at most unless told. */
  firstAfterMs?: number;
  run(): Promise<void>;
  /** Gives up what is running, where that takes long. */
  stop?(): Promise<void>;
}

/** Counts runs of jobs. */
interface JobMetrics {
  addJob(name: string, everyMs: number): void;
  observeJob(name: string, seconds: number, hasFailed: boolean): void;
}

/**
 * Runs each job again and again, never twice at once. A failure is logged and tried again at the next turn, after a
 * minute at most.
 * @returns a function that stops them and waits for those that are running
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
      const turn = job
        .run()
        .then(
          () => {
            observe(false);
            if (failed.delete(job)) log.info({ job: job.name }, 'a job works again');
          },
          (error: unknown) => {
            observe(true);
            // Said once, not at every turn of a long outage.
            if (!failed.has(job))
              log.error({ job: job.name, error: String(error) }, 'a job failed; it is tried again');
            failed.add(job);
          },
        )
        .finally(() => {
          running.delete(job);
          // What comes once in hours does not wait as long after a moment's trouble.
          schedule(job, failed.has(job) ? Math.min(job.everyMs, TRIED_AGAIN_AFTER_MS) : job.everyMs);
        });
      running.set(job, turn);
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
