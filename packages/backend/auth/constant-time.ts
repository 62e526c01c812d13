// Calls that do more work for a known address must not answer sooner for an unknown one.
import type { AuthContext, AuthRequest } from './context.ts';

/**
 * Delays a request's response, success or error, until the service's shortest response time from now has passed. The service waits after
 * the work is done and its place in the queue is free.
 */
export function delayAnswer(
  request: Pick<AuthRequest, 'heldUntil'>,
  context: Pick<AuthContext, 'settings'>,
): void {
  request.heldUntil = performance.now() + context.settings.shortestAnswer;
}

/** Waits until a request may be answered. */
export async function waitUntilAnswerable({ heldUntil }: Pick<AuthRequest, 'heldUntil'>): Promise<void> {
  const left = heldUntil - performance.now();
  if (left > 0) await new Promise((done) => setTimeout(done, left));
}
