// Posts JSON to the shop and returns the response. Pending requests can be abandoned.

type Delivery = {
  /** HTTP status of the shop's response; null without a response. */
  status: number | null;
  error: string | null;
  /** Body of the response; empty without one. */
  text: string;
  /** True when the request was abandoned, so that its outcome is unknown. */
  isAbandoned: boolean;
};

export type ShopMessages = {
  post(url: string, body: string, headers?: Record<string, string>): Promise<Delivery>;
  /** Abandons pending requests. */
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
