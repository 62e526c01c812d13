// The log of a database outage: every request fails with the same cause, and hundreds of equal stacks would hide everything else.
import { isUnavailable } from '@jani-juice/backend/database';
import type { Log } from './log.ts';

const maxCauses = 10;

export interface OutageLog {
  /**
   * Logs each cause of an outage once, and counts the rest.
   * @returns whether the error belongs to an outage; any other is for the caller to log
   */
  note(error: unknown): boolean;
  stop(): void;
}

/**
 * Creates the log.
 * @param query succeeds once the database answers again, which ends the outage with a line
 */
export function createOutageLog(log: Log, query: () => Promise<unknown>, { retryMs = 1000 } = {}): OutageLog {
  let outage: { startedAt: number; failures: number; causes: Set<string> } | null = null;
  let timer: NodeJS.Timeout | undefined;

  const checkLater = () => {
    timer = setTimeout(() => {
      query().then(
        () => {
          if (!outage) return;
          const { startedAt, failures, causes } = outage;
          outage = null;
          const seconds = Math.round((performance.now() - startedAt) / 1000);
          log.info({ seconds, failures, causes: [...causes] }, 'the database answers again');
        },
        () => {
          if (outage) checkLater();
        },
      );
    }, retryMs).unref();
  };

  return {
    note(error) {
      if (!isOutage(error)) return false;
      if (!outage) {
        outage = { startedAt: performance.now(), failures: 0, causes: new Set() };
        checkLater();
      }
      outage.failures += 1;
      const { message } = error as Error;
      if (!outage.causes.has(message) && outage.causes.size < maxCauses) {
        outage.causes.add(message);
        log.error({ error: message }, 'the database does not answer');
      }
      return true;
    },
    stop() {
      clearTimeout(timer);
      outage = null;
    },
  };
}

function isOutage(error: unknown): boolean {
  // The driver's own words, for an idle connection that ends.
  return isUnavailable(error) || (error instanceof Error && /^Connection terminated/.test(error.message));
}
