// What the payment dialog polls: how an attempt stands, from our own books.
import type { Fields } from './json-body.ts';
import type { MobileMoneyWorld } from './world.ts';

/**
 * The state of an attempt (specification §7, Storefront, 5).
 * @param fields `checkoutRequestId`, as `initiate` gave it
 * @returns 200 `{payment: {status, result_code}}`, status pending, completed, failed, review or unresolved; 404 when
 *   there is no such attempt; throws StoreFailure
 */
export async function checkStatus(world: MobileMoneyWorld, fields: Fields): Promise<Response> {
  const { checkoutRequestId } = fields;
  if (typeof checkoutRequestId !== 'string' || checkoutRequestId === '' || checkoutRequestId.length > 200) {
    return Response.json({ error: 'checkoutRequestId is missing' }, { status: 400 });
  }
  const payment = checkoutRequestId.includes('\0') ? null : await world.store.find(checkoutRequestId);
  if (!payment) return Response.json({ error: 'This payment does not exist' }, { status: 404 });
  const isOpen = payment.status === 'initiating' || payment.status === 'processing';
  return Response.json({
    payment: { status: isOpen ? 'pending' : payment.status, result_code: payment.result_code },
  });
}
