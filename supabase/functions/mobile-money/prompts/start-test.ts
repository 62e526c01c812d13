// The KSh 1 test: a prompt to a staff member's own phone. A payment without an order.
import { normalisePhone } from '../../../../domain/people/phone.ts';
import type { MobileMoneyContext } from '../context.ts';
import { sendPush } from '../daraja/stk-push.ts';
import { type Payment, ProcedureError } from '../database/client.ts';
import type { JsonObject } from '../request-body.ts';
import { createCallbackSecret } from '../secrets.ts';
import { recordPush } from './initiate.ts';

/** Account reference on the phone and in confirmations, in place of a tracking number. */
const REFERENCE = 'TEST';

/**
 * Prompts a phone for KSh 1.
 * @param fields `phoneNumber`
 * @param staffId user id of the staff member
 * @returns `{test}`, or `{error, code}` with a message for staff
 * @throws DatabaseUnavailable
 */
export async function startPaymentTest(
  context: MobileMoneyContext,
  fields: JsonObject,
  staffId: string,
): Promise<{ test: Payment } | { error: string; code: string }> {
  const phone = typeof fields.phoneNumber === 'string' ? normalisePhone(fields.phoneNumber) : null;
  if (!phone) return { error: 'Please enter a valid phone number', code: 'phone_invalid' };
  const callbackSecret = createCallbackSecret(context.secretKey);
  let test: Payment;
  try {
    test = await context.payments.beginTest({ phone, callbackSecret, requestedBy: staffId });
  } catch (error) {
    if (error instanceof ProcedureError) return { error: error.message, code: error.code };
    throw error;
  }
  const outcome = await sendPush(context.daraja, {
    phone,
    chargeCents: test.charge_cents,
    trackingNumber: REFERENCE,
    callbackUrl: `${context.callbackBaseUrl()}/${callbackSecret}`,
  });
  return { test: (await recordPush(context, test, outcome)) ?? test };
}
