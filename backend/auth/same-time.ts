// Calls that do more work for an address that is known must not be quicker for one that is not.
import type { AuthContext } from './context.ts';

/** Does the work and answers, or fails, no sooner than the service's shortest answer. */
export async function inSameTime<T>(
  context: Pick<AuthContext, 'settings'>,
  work: () => Promise<T>,
): Promise<T> {
  const until = performance.now() + context.settings.shortestAnswer;
  try {
    return await work();
  } finally {
    const left = until - performance.now();
    if (left > 0) await new Promise((done) => setTimeout(done, left));
  }
}
