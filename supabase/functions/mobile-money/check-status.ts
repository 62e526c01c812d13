// What the payment dialog polls: the state of an attempt, from our own books.
import { type Fields, storableText } from './json-body.ts';
import { type Payment, StoreRefusal } from './payment-store.ts';
import type { MobileMoneyWorld } from './world.ts';

/**
 * The state of an attempt (specification §7, Storefront, 5): no amount, phone or order, so the reference alone may ask.
 * @param fields `checkoutRequestId`, as `initiate` returned it: M-PESA's id, or the payment's own
 * @param address IP address of the request, whose unknown ids are limited; null when it is not known
 * @returns 200 `{payment: {status, result_code}}`, status pending, completed, failed, review or unresolved; 404 when
 *   there is no such attempt; 429 for an unknown id after too many of them; throws StoreFailure
 */
export async function checkStatus(
  world: MobileMoneyWorld,
  fields: Fields,
  address: string | null,
): Promise<Response> {
  const { checkoutRequestId: reference } = fields;
  if (typeof reference !== 'string' || reference === '' || reference.length > 200) {
    return Response.json({ error: 'checkoutRequestId is missing' }, { status: 400 });
  }
  let payment: Payment | null;
  try {
    payment = await world.store.find(storableText(reference, 200) ?? '', address);
  } catch (problem) {
    if (!(problem instanceof StoreRefusal)) throw problem;
    return Response.json({ error: problem.message, code: problem.code }, { status: problem.status });
  }
  if (!payment) return Response.json({ error: 'This payment does not exist' }, { status: 404 });
  const isOpen = payment.status === 'initiating' || payment.status === 'processing';
  return Response.json({
    payment: { status: isOpen ? 'pending' : payment.status, result_code: payment.result_code },
  });
}
