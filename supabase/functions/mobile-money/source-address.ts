// Where M-PESA's messages come from: one more sign of who sent them, never the only one.

import type { MobileMoneyWorld } from './world.ts';

// The portal's list ("Callback and IP Whitelisting") lies within these; it has changed before.
const networks = ['196.201.212.', '196.201.213.', '196.201.214.'];

/**
 * Whether an address is one that M-PESA has been seen to send from. A stand-in on this machine sends from anywhere.
 * @param address as the server in front says; null when it says none
 * @param darajaUrl where M-PESA is asked
 */
export function isKnownSource(address: string | null, darajaUrl: string): boolean {
  const { hostname } = new URL(darajaUrl);
  if (hostname === 'localhost' || hostname === '[::1]' || hostname.startsWith('127.')) return true;
  const plain = address?.replace(/^::ffff:/i, '') ?? '';
  return networks.some((network) => plain.startsWith(network));
}

/**
 * Flags a message that came from elsewhere. It is taken all the same: to drop it would be final, and addresses of M-PESA
 * change.
 * @param what came, such as `notice`
 */
export function flagUnknownSource(world: MobileMoneyWorld, address: string | null, what: string): void {
  if (isKnownSource(address, world.daraja.settings.baseUrl)) return;
  world.log({ level: 'warn', event: `${what} from an unknown address`, detail: address ?? 'none' });
}
