// The STK query: asks M-PESA what became of a prompt.
import { judgeResultCode, type PaymentVerdict } from '../../../domain/payment-result.ts';
import type { DarajaClient, DarajaReply } from './daraja-client.ts';
import { storableText } from './json-body.ts';
import { merchantFields } from './merchant-password.ts';

const QUERY_PATH = '/mpesa/stkpushquery/v1/query';

export interface QueryOutcome {
  /** `pending` also for every answer that decides nothing. */
  verdict: PaymentVerdict;
  /** The answer word for word; null when there was none. */
  body: string | null;
  resultCode: string | null;
  resultDescription: string | null;
  merchantRequestId: string | null;
  checkoutRequestId: string | null;
}

/** Asks once about one prompt. Never throws. */
export async function queryPush(daraja: DarajaClient, checkoutRequestId: string): Promise<QueryOutcome> {
  return judgeQuery(
    await daraja.post(QUERY_PATH, {
      ...merchantFields(daraja.settings, daraja.now()),
      CheckoutRequestID: checkoutRequestId,
    }),
  );
}

/**
 * What an answer to a query means: final only when it is a result with a code known to be final. "Still processing" in
 * any of its spellings, errors, refusals and silence all mean that nothing is known yet (Daraja, STK query).
 */
export function judgeQuery(reply: DarajaReply): QueryOutcome {
  const fields = reply.kind === 'answered' ? reply.fields : null;
  const isResult =
    reply.kind === 'answered' && reply.status === 200 && storableText(fields?.ResponseCode, 40) === '0';
  return {
    verdict: isResult ? judgeResultCode(fields?.ResultCode, 'query') : 'pending',
    body: reply.kind === 'answered' ? storableText(reply.body, 65_536) : null,
    resultCode: isResult ? storableText(fields?.ResultCode, 40) : null,
    resultDescription: isResult ? storableText(fields?.ResultDesc, 500) : null,
    merchantRequestId: isResult ? storableText(fields?.MerchantRequestID, 200) : null,
    checkoutRequestId: isResult ? storableText(fields?.CheckoutRequestID, 200) : null,
  };
}
