// "Test with KSh 1": a prompt to a staff member's own phone. A payment like every other, but of no order.
import { normalisePhone } from '../../../domain/phone.ts';
import { recordPush } from './initiate.ts';
import type { Fields } from './json-body.ts';
import { type Payment, StoreRefusal } from './payment-store.ts';
import { drawNoticeSecret } from './secret.ts';
import { sendPush } from './stk-push.ts';
import type { MobileMoneyWorld } from './world.ts';

/** What the phone shows, and what a confirmation of the money names: no order's number. */
const REFERENCE = 'TEST';

/**
 * Prompts a phone for KSh 1.
 * @param fields `phoneNumber`
 * @param member who asks
 * @returns `{test}`, or `{error, code}` with a sentence; throws StoreFailure
 */
export async function startPaymentTest(
  world: MobileMoneyWorld,
  fields: Fields,
  member: string,
): Promise<{ test: Payment } | { error: string; code: string }> {
  const phone = typeof fields.phoneNumber === 'string' ? normalisePhone(fields.phoneNumber) : null;
  if (!phone) return { error: 'Please enter a valid phone number', code: 'phone_invalid' };
  const noticeSecret = drawNoticeSecret();
  let test: Payment;
  try {
    test = await world.store.beginTest({ phone, noticeSecret, requestedBy: member });
  } catch (problem) {
    if (problem instanceof StoreRefusal) return { error: problem.message, code: problem.code };
    throw problem;
  }
  const outcome = await sendPush(world.daraja, {
    phone,
    chargeCents: test.charge_cents,
    trackingNumber: REFERENCE,
    noticeUrl: `${world.noticeBaseUrl()}/${noticeSecret}`,
  });
  return { test: (await recordPush(world, test, outcome)) ?? test };
}
