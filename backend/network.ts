// Who asks, as far as limits go: one customer of a provider has at least a /64 of IPv6, so limits on each address would be none.

/**
 * What of an address stands for who asks.
 * @param ip an address as the network gives it
 * @returns the same of IPv4; of IPv6 the first half, such as `2001:db8:0:1::/64`
 */
export function networkOf(ip: string): string {
  if (!ip.includes(':')) return ip;
  const [head = '', tail] = (ip.split('%')[0] ?? '').toLowerCase().split('::');
  const before = head.split(':').filter(Boolean);
  const after = (tail ?? '').split(':').filter(Boolean);
  // An address in dots at the end stands for two parts.
  const given = before.length + after.length + ([...before, ...after].at(-1)?.includes('.') ? 1 : 0);
  const parts = [...before, ...Array.from({ length: Math.max(0, 8 - given) }, () => '0'), ...after];
  return `${parts
    .slice(0, 4)
    .map((part) => part.replace(/^0+(?=.)/, ''))
    .join(':')}::/64`;
}
