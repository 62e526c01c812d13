// The networks an IP address belongs to. Limits count networks, not addresses: one customer of a provider has a whole IPv6 /64 to
// choose addresses from, and often a /56 or a /48.
import { isIPv4, isIPv6 } from 'node:net';

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
  const groups = readGroups(withoutZone);
  if (groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff) {
    const [high = 0, low = 0] = groups.slice(6);
    return networksOfIPv4([high >> 8, high & 0xff, low >> 8, low & 0xff].join('.'));
  }
  const [first = 0, second = 0, third = 0, fourth = 0] = groups;
  return [
    writeNetwork([first, second, third, fourth], 64),
    writeNetwork([first, second, third, fourth & 0xff00], 56),
    writeNetwork([first, second, third], 48),
  ];
}

function networksOfIPv4(address: string): string[] {
  return [address, `${address.slice(0, address.lastIndexOf('.'))}.0/24`];
}

/** The eight 16-bit groups of a valid IPv6 address without zone. */
function readGroups(address: string): number[] {
  const [head = '', tail] = address.split('::');
  const before = readGroupList(head);
  const after = readGroupList(tail ?? '');
  return [...before, ...Array<number>(8 - before.length - after.length).fill(0), ...after];
}

function readGroupList(text: string): number[] {
  if (text === '') return [];
  return text.split(':').flatMap((part) => {
    if (!part.includes('.')) return [Number.parseInt(part, 16)];
    const [a = 0, b = 0, c = 0, d = 0] = part.split('.').map(Number);
    return [a * 256 + b, c * 256 + d];
  });
}

/** The network in PostgreSQL's notation: trailing zero groups shortened to `::`. */
function writeNetwork(groups: number[], prefix: number): string {
  const last = groups.findLastIndex((group) => group !== 0);
  const written = groups.slice(0, last + 1).map((group) => group.toString(16));
  return `${written.join(':')}::/${prefix}`;
}
