// The STK query: requests the state of a prompt.
import { judgeResultCode, type PaymentResult } from '../../../../domain/mpesa/payment-result.ts';
import { storableText } from '../request-body.ts';
import type { DarajaClient, DarajaReply } from './connection/client.ts';
import { merchantFields } from './fields/merchant-fields.ts';
import type { UnreadablePart } from './fields/money-fields.ts';
import { readMetadata } from './stk-callback.ts';

const QUERY_PATH = '/mpesa/stkpushquery/v1/query';

export interface QueryOutcome {
  /** `pending` also for every inconclusive answer. */
  result: PaymentResult;
  /** The body as received; null without an answer. */
  body: string | null;
  resultCode: string | null;
  resultDescription: string | null;
  /** Cents; null as a rule, because M-PESA's answers name no money. */
  receivedCents: number | null;
  receipt: string | null;
  /** Parts of the money that cannot be read. */
  unreadable: UnreadablePart[];
  merchantRequestId: string | null;
  checkoutRequestId: string | null;
}

/** Sends one query. Never throws. */
export async function queryPush(daraja: DarajaClient, checkoutRequestId: string): Promise<QueryOutcome> {
  return readQueryReply(
    await daraja.post(QUERY_PATH, {
      ...merchantFields(daraja.settings, daraja.now()),
      CheckoutRequestID: checkoutRequestId,
    }),
  );
}

/**
 * Classifies the reply to a query: final only for a result with a code known to be final. "Still processing" in
 * any spelling, errors, refusals and no reply all mean that nothing is known yet (Daraja, STK query). Money that a reply names is read
 * whatever its result.
 */
export function readQueryReply(reply: DarajaReply): QueryOutcome {
  const fields = reply.kind === 'answered' ? reply.fields : null;
  const isResult =
    reply.kind === 'answered' && reply.status === 200 && storableText(fields?.ResponseCode, 40) === '0';
  const money = readMetadata(fields);
  return {
    receivedCents: money.cents,
    receipt: money.receipt,
    unreadable: money.unreadable,
    result: isResult ? judgeResultCode(fields?.ResultCode, 'query') : 'pending',
    body: reply.kind === 'answered' ? storableText(reply.body, 65_536) : null,
    resultCode: isResult ? storableText(fields?.ResultCode, 40) : null,
    resultDescription: isResult ? storableText(fields?.ResultDesc, 500) : null,
    merchantRequestId: isResult ? storableText(fields?.MerchantRequestID, 200) : null,
    checkoutRequestId: isResult ? storableText(fields?.CheckoutRequestID, 200) : null,
  };
}
