// The state of a payment, as the payment dialog polls it: from the database, without a query to M-PESA.
import { isOpenAttempt, type ReportedStatus } from '../../../../domain/mpesa/payment-result.ts';
import type { MobileMoneyContext } from '../context.ts';
import { type Payment, ProcedureError } from '../database/client.ts';
import { type JsonObject, storableText } from '../request-body.ts';

/**
 * Returns the state of a payment (docs/product.md#calls). The answer has no amount, phone or order, so the
 * reference alone is enough.
 * @param fields `checkoutRequestId`, as `initiate` returned it: M-PESA's id, or the payment's own
 * @param address IP address of the request, whose unknown ids are limited; null if unknown
 * @returns 200 `{payment: {status, result_code}}` with a `ReportedStatus`; 404 for an unknown id, 429 after too many of them
 * @throws DatabaseUnavailable
 */
export async function checkStatus(
  context: MobileMoneyContext,
  fields: JsonObject,
  address: string | null,
): Promise<Response> {
  const { checkoutRequestId: reference } = fields;
  if (typeof reference !== 'string' || reference === '' || reference.length > 200) {
    return Response.json({ error: 'checkoutRequestId is missing' }, { status: 400 });
  }
  let payment: Payment | null;
  try {
    payment = await context.payments.find(storableText(reference, 200) ?? '', address);
  } catch (error) {
    if (!(error instanceof ProcedureError)) throw error;
    return Response.json({ error: error.message, code: error.code }, { status: error.status });
  }
  if (!payment) return Response.json({ error: 'This payment does not exist' }, { status: 404 });
  const status: ReportedStatus = isOpenAttempt(payment.status) ? 'pending' : payment.status;
  return Response.json({ payment: { status, result_code: payment.result_code } });
}
