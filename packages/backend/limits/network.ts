// The networks an IP address belongs to. Limits count networks, not addresses: one customer of a provider has a whole IPv6 /64 to
// choose addresses from, and often a /56 or a /48.
import { isIPv4, isIPv6 } from 'node:net';
import ipaddr from 'ipaddr.js';

/** Unreadable addresses share this network, so that they cannot bypass a limit. */
const unreadable = 'unknown';

/**
 * The networks of an IP address, narrowest first.
 * @param address IPv4 or IPv6 address; an IPv4-mapped IPv6 address (`::ffff:192.0.2.1`) counts as IPv4
 * @returns IPv4: the address and its /24, such as `['192.0.2.1', '192.0.2.0/24']`. IPv6: its /64, /56 and /48, written as
 * PostgreSQL writes them. Any other text: one network that all such texts share.
 */
export function networksOf(address: string): string[] {
  // Longer than the longest address with a zone: not an address.
  if (address.length > 100) return [unreadable];
  if (isIPv4(address)) return networksOfIPv4(address);
  const [withoutZone = ''] = address.split('%', 1);
  if (!isIPv6(withoutZone)) return [unreadable];
  const parsed = ipaddr.IPv6.parse(withoutZone);
  if (parsed.isIPv4MappedAddress()) return networksOfIPv4(parsed.toIPv4Address().toString());
  const [first = 0, second = 0, third = 0, fourth = 0] = parsed.parts;
  return [
    writeNetwork([first, second, third, fourth], 64),
    writeNetwork([first, second, third, fourth & 0xff00], 56),
    writeNetwork([first, second, third, 0], 48),
  ];
}

function networksOfIPv4(address: string): string[] {
  return [address, `${address.slice(0, address.lastIndexOf('.'))}.0/24`];
}

/** @param groups the first four of eight */
function writeNetwork(groups: number[], prefix: number): string {
  return `${new ipaddr.IPv6([...groups, 0, 0, 0, 0])}/${prefix}`;
}
