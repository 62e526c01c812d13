// Writes the callback about a decided prompt and delivers it over HTTP: once, unsigned, never repeated.
import type { SimulatorClock } from './clock.ts';
import type { Ledger, Prompt } from './ledger.ts';
import type { PlannedCallback, PushAccepted } from './ledger-entries.ts';
import { compactNairobiTime } from './nairobi-time.ts';
import type { ResultCode } from './outcomes.ts';
import { describeResult } from './result-codes.ts';

/** The JSON of a callback, as observed: numbers with decimals, a Balance without a Value. */
export function writeCallbackBody(
  push: PushAccepted,
  decision: { at: number; resultCode: ResultCode; receipt: string | null },
  namedAmount: number,
): string {
  const metadata =
    decision.receipt === null
      ? {}
      : {
          CallbackMetadata: {
            Item: [
              { Name: 'Amount', Value: namedAmount },
              { Name: 'MpesaReceiptNumber', Value: decision.receipt },
              { Name: 'Balance' },
              { Name: 'TransactionDate', Value: Number(compactNairobiTime(decision.at)) },
              { Name: 'PhoneNumber', Value: Number(push.phone) },
            ],
          },
        };
  const body = JSON.stringify({
    Body: {
      stkCallback: {
        MerchantRequestID: push.merchantRequestId,
        CheckoutRequestID: push.checkoutRequestId,
        ResultCode: decision.resultCode,
        ResultDesc: describeResult(decision.resultCode, 'callback'),
        ...metadata,
      },
    },
  });
  // Daraja writes whole shillings as 951.00, which JSON.stringify cannot.
  return body.replace(/("Name":"Amount","Value":\d+)/, '$1.00');
}

export type CallbackDelivery = {
  /** Resolves when the shop has answered (or has failed to) and the ledger has it. */
  deliver(prompt: Prompt, callback: PlannedCallback): Promise<void>;
  /** Gives up what is under way without writing it down. */
  abandon(): void;
  /** The same for good: what was not delivered is sent again by the next start. */
  stop(): void;
};

export function callbackDelivery(world: {
  clock: SimulatorClock;
  ledger: Ledger;
  timeoutMs: number;
}): CallbackDelivery {
  const { clock, ledger, timeoutMs } = world;
  let underWay = new AbortController();

  async function post(push: PushAccepted, body: string, signal: AbortSignal) {
    try {
      const response = await fetch(push.callbackUrl, {
        method: 'POST',
        headers: {
          'content-type': 'application/json;charset=UTF-8',
          businessshortcode: push.shortcode,
        },
        body,
        redirect: 'manual',
        signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
      });
      await response.body?.cancel();
      return { status: response.status, error: null };
    } catch (problem) {
      const cause = problem instanceof Error && problem.cause instanceof Error ? problem.cause : problem;
      return { status: null, error: cause instanceof Error ? cause.message : String(cause) };
    }
  }

  return {
    async deliver({ push }, { ordinal, body }) {
      const { signal } = underWay;
      const { status, error } = await post(push, body, signal);
      if (signal.aborted) return;
      await ledger.write({
        kind: 'callback delivered',
        at: clock.now(),
        checkoutRequestId: push.checkoutRequestId,
        ordinal,
        status,
        error,
      });
    },
    abandon() {
      underWay.abort();
      underWay = new AbortController();
    },
    stop() {
      underWay.abort();
    },
  };
}
