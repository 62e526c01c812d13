// Asks the database which jobs have work.
import type { Store } from '../web/lib/store.ts';
import type { Job } from './jobs.ts';

/** How soon a process notices work. A hosted project counts requests: an idle process makes 28,800 of these a day. */
const pollMs = 3000;

/**
 * Creates the check whether a job has work: one call of the database answers it for all jobs.
 * @param tables calls with the secret key
 * @param onUnavailable called when the database does not answer
 */
export function createDueJobs(
  tables: Store['tables'],
  onUnavailable: () => void = () => {},
): (job: string) => Promise<boolean> {
  // A job that runs longer than the interval finds later what was claimed for it.
  const claimed = new Set<string>();
  let polledAt = Number.NEGATIVE_INFINITY;
  let polling: Promise<void> = Promise.resolve();
  const poll = async () => {
    const { data, error } = await tables.rpc('claim_due_jobs');
    if (error) {
      onUnavailable();
      throw new Error(error.message);
    }
    for (const job of data) claimed.add(job);
  };
  return async (job) => {
    // Timers may fire a little early.
    if (performance.now() - polledAt > pollMs - 50) {
      polledAt = performance.now();
      polling = poll();
    }
    await polling;
    return claimed.delete(job);
  };
}

/** The job, run only when the database has work for it and chooses this process. */
export function whenDue(
  isDue: (job: string) => Promise<boolean>,
  dueName: string,
  job: Omit<Job, 'everyMs'>,
): Job {
  return {
    ...job,
    everyMs: pollMs,
    async run() {
      if (await isDue(dueName)) await job.run();
    },
  };
}
