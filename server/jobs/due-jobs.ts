// Asks the database which jobs have work.
import type { Store } from '../../supabase/store.ts';
import type { Job } from './jobs.ts';

/** How soon a process notices work. A hosted project counts requests: an idle process makes 28,800 of these a day. */
const pollMs = 3000;
const pollTimeoutMs = 10_000;

export interface DueJobs {
  /** Runs a job if the database has work for it and chooses this process. While it runs here, other processes are chosen. */
  runIfDue(name: string, work: () => Promise<unknown>): Promise<void>;
}

/**
 * Creates the check whether a job has work: one call of the database answers it for all jobs.
 * @param tables calls with the secret key
 * @param onUnavailable called when the database does not answer
 */
export function createDueJobs(tables: Store['tables'], onUnavailable: () => void = () => {}): DueJobs {
  // What the call for one job has claimed for others.
  const claimed = new Set<string>();
  const running = new Set<string>();
  let polledAt = Number.NEGATIVE_INFINITY;
  let polling: Promise<void> = Promise.resolve();
  const poll = async () => {
    // Without a deadline a connection to a hosted project that died silently would stop all jobs for minutes.
    const { data, error } = await tables
      .rpc('claim_due_jobs', { busy: [...claimed, ...running] })
      .abortSignal(AbortSignal.timeout(pollTimeoutMs));
    if (error) {
      onUnavailable();
      throw new Error(error.message);
    }
    for (const job of data) claimed.add(job);
  };
  return {
    async runIfDue(name, work) {
      // Timers may fire a little early.
      if (performance.now() - polledAt > pollMs - 50) {
        polledAt = performance.now();
        polling = poll();
      }
      await polling;
      if (!claimed.delete(name)) return;
      running.add(name);
      await work().finally(() => running.delete(name));
    },
  };
}

/** The job, run only when the database has work for it and chooses this process. */
export function whenDue(dueJobs: DueJobs, dueName: string, job: Omit<Job, 'everyMs'>): Job {
  return { ...job, everyMs: pollMs, run: () => dueJobs.runIfDue(dueName, async () => job.run()) };
}
