// URLs of an order's pages in messages to customers: with the access key, and a short form for text messages.
import { isTrackingNumber } from './tracking-number.ts';

export type OrderPage = 'tracking' | 'receipt';

/**
 * The URL of an order's page.
 * @param publicUrl the shop's public URL without a trailing slash
 * @param trackingNumber `JJ-YYYYMMDD-NNNN`
 * @param accessKey gives access to the order's personal data; null without one
 */
export function orderLink(
  publicUrl: string,
  trackingNumber: string,
  accessKey: string | null,
  page: OrderPage = 'tracking',
): string {
  const path = `/track-order/${encodeURIComponent(trackingNumber)}${page === 'receipt' ? '/receipt' : ''}`;
  return `${publicUrl}${path}${accessKey ? `?key=${encodeURIComponent(accessKey)}` : ''}`;
}

/** The short form, two thirds as long, for text messages: `/t/YYYYMMDD-NNNN-` and 22 characters. */
export function shortOrderLink(
  publicUrl: string,
  trackingNumber: string,
  accessKey: string | null,
  page: OrderPage = 'tracking',
): string {
  if (!accessKey || !/^[0-9a-f]{32}$/.test(accessKey) || !isTrackingNumber(trackingNumber)) {
    return orderLink(publicUrl, trackingNumber, accessKey, page);
  }
  const bytes = accessKey.match(/../g) ?? [];
  const key = btoa(String.fromCharCode(...bytes.map((byte) => Number.parseInt(byte, 16))))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
  return `${publicUrl}/t/${trackingNumber.slice(3)}-${key}${page === 'receipt' ? '/receipt' : ''}`;
}

/**
 * Reads the last part of a short link.
 * @returns null when it is not a short link
 */
export function readShortOrderLink(code: string): { trackingNumber: string; accessKey: string } | null {
  const [, number, key] = /^(\d{8}-\d{4,6})-([A-Za-z0-9_-]{22})$/.exec(code) ?? [];
  if (!number || !key) return null;
  const bytes = atob(key.replaceAll('-', '+').replaceAll('_', '/'));
  const accessKey = [...bytes].map((byte) => byte.charCodeAt(0).toString(16).padStart(2, '0')).join('');
  return { trackingNumber: `JJ-${number}`, accessKey };
}
