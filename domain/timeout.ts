// The deadline of requests to the shop: after it the customer sees an error and can try again.

/** In ms. The request may still succeed on the server. */
export const requestTimeoutMs = 30_000;

/**
 * Waits for an answer until a deadline.
 * @throws Error after the deadline, or the error of the answer
 */
export function withTimeout<Answer>(answer: Promise<Answer>, withinMs = requestTimeoutMs): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('The shop did not answer in time')), withinMs);
    answer.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
