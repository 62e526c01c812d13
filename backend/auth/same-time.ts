// Calls that do more work for an address that is known must not be quicker for one that is not.
import type { AuthContext, AuthRequest } from './context.ts';

/**
 * Has a request answered, or refused, no sooner than the service's shortest answer from now. The service waits for it once the work is
 * done and its place in the queue is free.
 */
export function holdAnswer(
  request: Pick<AuthRequest, 'heldUntil'>,
  context: Pick<AuthContext, 'settings'>,
): void {
  request.heldUntil = performance.now() + context.settings.shortestAnswer;
}

/** Waits until a request may be answered. */
export async function waitForAnswer({ heldUntil }: Pick<AuthRequest, 'heldUntil'>): Promise<void> {
  const left = heldUntil - performance.now();
  if (left > 0) await new Promise((done) => setTimeout(done, left));
}
