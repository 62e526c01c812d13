// The deadline of requests to the shop: after it the customer sees an error and can try again.

/** In ms. The request may still succeed on the server. */
export const patience = 30_000;

/**
 * Waits for an answer until a deadline.
 * @throws Error after the deadline, or the error of the answer
 */
export function inTime<Answer>(answer: Promise<Answer>, withinMs = patience): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('The shop did not answer in time')), withinMs);
    answer.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
