// Where M-PESA's messages come from: one more sign of who sent them, never the only one.

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
