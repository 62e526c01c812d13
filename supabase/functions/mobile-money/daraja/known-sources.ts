// Known IP addresses of M-PESA: a hint about the sender of a callback, never its proof.

import { callbackSource } from '../../../../domain/mpesa/callback-url.ts';
import type { MobileMoneyContext } from '../context.ts';

/**
 * Whether an IP address belongs to M-PESA. The local simulator may use any.
 * @param address as the proxy reports it; null if unknown
 * @param darajaUrl URL of Daraja
 */
export function isKnownSource(address: string | null, darajaUrl: string): boolean {
  const { hostname } = new URL(darajaUrl);
  if (hostname === 'localhost' || hostname === '[::1]' || hostname.startsWith('127.')) return true;
  // The portal's list has changed before, so its whole networks count.
  return ['mpesa', 'mpesa network'].includes(callbackSource(address));
}

/**
 * Logs a message from an unknown address. It is still accepted: rejecting it would be final, and M-PESA's addresses
 * change.
 * @param what kind of message, such as `callback`
 */
export function flagUnknownSource(context: MobileMoneyContext, address: string | null, what: string): void {
  if (isKnownSource(address, context.daraja.settings.baseUrl)) return;
  context.log({ level: 'warn', event: `${what} from an unknown address`, detail: address ?? 'none' });
}
