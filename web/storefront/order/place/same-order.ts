// Notices that the order form without JavaScript places the same order again: after Back the page has a new idempotency key. The last
// order is stored in a cookie, because such a browser has no other storage.
import { isTrackingNumber } from '../../../../domain/orders/tracking-number.ts';
import { type OrderRequest, orderContent } from './place-order.ts';

/** Name of the form's answer that the same is wanted again. */
export const againField = 'again';

interface PlacedOrder {
  trackingNumber: string;
  accessKey: string;
}

const cookieName = 'placed-order';
/** An hour: later, the same order is a new one. */
const maxAgeSeconds = 3600;

async function hashOf(order: OrderRequest): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(orderContent(order)));
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/**
 * The `Set-Cookie` header after an order was placed. Only order forms receive the cookie, and scripts do not.
 * @param key the form's idempotency key
 */
export async function placedOrderCookie(
  order: OrderRequest,
  key: string,
  { trackingNumber, accessKey }: PlacedOrder,
  url: URL,
): Promise<string> {
  const value = [await hashOf(order), key.replace(/[^\w-]/g, ''), trackingNumber, accessKey].join('.');
  const isSecure = url.protocol === 'https:' ? '; Secure' : '';
  return `${cookieName}=${value}; Path=/shop; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=Lax${isSecure}`;
}

/**
 * The order that this browser has placed with the same content.
 * @param cookie header of the request
 * @param key the form's idempotency key: the same form sent twice stays one order without a question
 */
export async function readSameOrder(
  cookie: string | null,
  order: OrderRequest,
  key: string,
): Promise<PlacedOrder | null> {
  const value = cookie
    ?.split(/;\s*/)
    .find((one) => one.startsWith(`${cookieName}=`))
    ?.slice(cookieName.length + 1);
  const [hash, placedWith, trackingNumber = '', accessKey = ''] = value?.split('.') ?? [];
  if (!hash || placedWith === key || !isTrackingNumber(trackingNumber) || !/^[0-9a-f]{32}$/.test(accessKey)) {
    return null;
  }
  return hash === (await hashOf(order)) ? { trackingNumber, accessKey } : null;
}
