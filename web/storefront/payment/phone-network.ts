// Networks of Kenyan mobile numbers. M-PESA prompts reach Safaricom's.

/** Prefixes of other networks than Safaricom's, after +254 (Communications Authority of Kenya, numbering plan). */
const otherNetworks: readonly [network: string, prefixes: RegExp][] = [
  ['Airtel', /^(?:73\d|75[0-6]|762|78\d|10\d)/],
  ['Telkom', /^77\d/],
  ['Equitel', /^76[3-6]/],
  ['Faiba', /^747/],
];

/**
 * Recognises a number of another network than Safaricom's. Numbers can be ported, so this is a hint and no refusal.
 * @param phone a number as `normalisePhone` gives it
 * @returns the network's name; null for Safaricom and unknown prefixes
 */
export function otherNetworkOf(phone: string): string | null {
  const local = phone.replace(/^\+254/, '');
  return otherNetworks.find(([, prefixes]) => prefixes.test(local))?.[0] ?? null;
}
