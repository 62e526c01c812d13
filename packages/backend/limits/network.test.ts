import { expect, it } from 'vitest';
import { networksOf } from './network.ts';

it.each([
  ['192.0.2.1', ['192.0.2.1', '192.0.2.0/24']],
  ['::ffff:192.0.2.1', ['192.0.2.1', '192.0.2.0/24']],
  ['::ffff:c000:201', ['192.0.2.1', '192.0.2.0/24']],
  ['2001:db8:1:2:3:4:5:6', ['2001:db8:1:2::/64', '2001:db8:1::/56', '2001:db8:1::/48']],
  ['2001:0DB8:1:2345::1', ['2001:db8:1:2345::/64', '2001:db8:1:2300::/56', '2001:db8:1::/48']],
  ['2001:db8::1', ['2001:db8::/64', '2001:db8::/56', '2001:db8::/48']],
  ['0:0:0:1::', ['0:0:0:1::/64', '::/56', '::/48']],
  ['::1', ['::/64', '::/56', '::/48']],
  ['fe80::1%eth0', ['fe80::/64', 'fe80::/56', 'fe80::/48']],
  ['64:ff9b::192.0.2.1', ['64:ff9b::/64', '64:ff9b::/56', '64:ff9b::/48']],
])('lists the networks of %s, narrowest first', (address, networks) => {
  expect(networksOf(address)).toEqual(networks);
});

it.each([
  '',
  'unknown',
  '192.0.2',
  '192.0.2.1.5',
  '2001:db8',
  '2001:::1',
  ':'.repeat(100_000),
  '1'.repeat(5000),
])('puts unreadable text into one shared network', (text) => {
  expect(networksOf(text)).toEqual(['unknown']);
});
