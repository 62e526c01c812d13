// Sends the callback of a decided prompt over HTTP: once, unsigned, without retries.
import type { SimulatorClock } from '../ledger/clock.ts';
import type { Ledger, Prompt } from '../ledger/ledger.ts';
import type { PlannedCallback, PushAccepted } from '../ledger/ledger-entries.ts';
import { compactNairobiTime } from '../ledger/nairobi-time.ts';
import type { ResultCode } from './outcomes.ts';
import { describeResult } from './result-codes.ts';
import type { ShopMessages } from './shop-messages.ts';

/** JSON of a callback, as observed at Daraja: numbers with decimals, a Balance without a Value. */
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
  /** Resolves when the shop's response, or its absence, is in the ledger. */
  deliver(prompt: Prompt, callback: PlannedCallback): Promise<void>;
};

export function callbackDelivery(dependencies: {
  clock: SimulatorClock;
  ledger: Ledger;
  messages: ShopMessages;
}): CallbackDelivery {
  const { clock, ledger, messages } = dependencies;
  return {
    async deliver({ push }, { ordinal, body }) {
      const { status, error, isAbandoned } = await messages.post(push.callbackUrl, body, {
        businessshortcode: push.shortcode,
      });
      if (isAbandoned) return;
      await ledger.write({
        kind: 'callback delivered',
        at: clock.now(),
        checkoutRequestId: push.checkoutRequestId,
        ordinal,
        status,
        error,
      });
    },
  };
}
