// Writes whose answer was lost: the database knows whether they were saved (`settle_write`).

/** Names a write to the database. */
const writeIdHeader = 'x-write-id';

/** Code of the answer to a write that was saved although its own answer was lost. Its details are what the procedure returned, as JSON. */
export const savedCode = 'saved_without_answer';
/** Code of the answer to a write of which nothing is known yet. Its details are the id of the write. */
export const lostCode = 'answer_lost';

/** Result of `settle_write`: a write that is not saved never will be, so it can be repeated. */
export interface SettledWrite {
  is_saved: boolean;
  answer: unknown;
}

/** Waiting times in ms before each question whether a write was saved. */
const questionDelays = [0, 700, 1500, 3000];
/** A write is sent at most this often in all. */
const maxSends = 3;

/** Whether a gateway answered instead of the shop, so that the write may have been saved. */
const isLost = ({ status }: Response): boolean => [502, 503, 504].includes(status);

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

const answerWith = (status: number, code: string, message: string, details: string): Response =>
  new Response(JSON.stringify({ code, message, details, hint: null }), {
    status,
    headers: { 'content-type': 'application/json' },
  });

/**
 * A `fetch` that finds out what became of a write without an answer. A write that was not saved is sent again; one that was saved gets
 * an answer with `savedCode`; one of which nothing is known gets status 504 with `lostCode`.
 * Writes are requests other than GET and HEAD. Requests with a signal are queries, whose caller repeats them.
 * @param settle asks whether a write was saved; throws without an answer
 * @param wait for tests
 */
export function withLostAnswers(
  send: typeof fetch,
  settle: (writeId: string) => Promise<SettledWrite>,
  wait: (ms: number) => Promise<unknown> = pause,
): typeof fetch {
  const question = async (writeId: string): Promise<SettledWrite | null> => {
    for (const delay of questionDelays) {
      if (delay > 0) await wait(delay);
      const settled = await settle(writeId).catch(() => null);
      if (settled) return settled;
    }
    return null;
  };
  return async (input, init) => {
    if (['GET', 'HEAD'].includes(init?.method ?? 'GET') || init?.signal) return send(input, init);
    for (let sends = 1; ; sends += 1) {
      const writeId = crypto.randomUUID();
      const headers = new Headers(init?.headers);
      headers.set(writeIdHeader, writeId);
      const answer = await send(input, { ...init, headers }).catch(() => null);
      if (answer && !isLost(answer)) return answer;
      const settled = await question(writeId);
      if (settled?.is_saved) {
        return answerWith(409, savedCode, 'Saved, without an answer', JSON.stringify(settled.answer ?? null));
      }
      if (!settled) return answerWith(504, lostCode, 'No answer', writeId);
      if (sends === maxSends) return answer ?? answerWith(503, '', 'No answer', '');
    }
  };
}
