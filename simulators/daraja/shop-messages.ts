// Posts JSON to the shop and says what came back. What is under way can be given up.

type Delivery = {
  /** The HTTP status the shop answered, or null when it gave no answer. */
  status: number | null;
  error: string | null;
  /** The answer's text; empty when there was none. */
  text: string;
  /** True when it was given up, so that nothing is known. */
  isAbandoned: boolean;
};

export type ShopMessages = {
  post(url: string, body: string, headers?: Record<string, string>): Promise<Delivery>;
  /** Gives up what is under way. */
  abandon(): void;
};

const LONGEST_ANSWER = 16_384;

export function shopMessages(timeoutMs: number): ShopMessages {
  let underWay = new AbortController();
  return {
    async post(url, body, headers = {}) {
      const { signal } = underWay;
      try {
        const response = await fetch(url, {
          method: 'POST',
          headers: { 'content-type': 'application/json;charset=UTF-8', ...headers },
          body,
          redirect: 'manual',
          signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
        });
        const text = (await response.text()).slice(0, LONGEST_ANSWER);
        return { status: response.status, error: null, text, isAbandoned: signal.aborted };
      } catch (problem) {
        const cause = problem instanceof Error && problem.cause instanceof Error ? problem.cause : problem;
        const error = cause instanceof Error ? cause.message : String(cause);
        return { status: null, error, text: '', isAbandoned: signal.aborted };
      }
    },
    abandon() {
      underWay.abort();
      underWay = new AbortController();
    },
  };
}
