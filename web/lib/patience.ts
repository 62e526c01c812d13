// For how long the shop is waited for. Whoever asked in vain is told so and tries again: a page that waits for ever loses them.

/** In ms. What was asked may be done all the same. */
export const patience = 30_000;

/**
 * What the shop answers, as long as it does so in time.
 * @throws Error when it does not, and whatever the answer itself fails with
 */
export function inTime<Answer>(answer: Promise<Answer>, withinMs = patience): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('The shop did not answer in time')), withinMs);
    answer.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
