import { expect, test } from 'vitest';
import { RecentNetworks } from './recent-networks.ts';

function openRecent() {
  let time = 0;
  const recent = new RecentNetworks(() => time);
  return { recent, pass: (ms: number) => (time += ms) };
}

test('a network is alone until another one sends a request', () => {
  const { recent } = openRecent();
  recent.note('192.0.2.1');
  recent.note('192.0.2.77');
  recent.note('::ffff:192.0.2.3');
  expect(recent.isAlone('192.0.2.0/24')).toBe(true);
  recent.note('198.51.100.1');
  expect(recent.isAlone('192.0.2.0/24')).toBe(false);
  recent.note('192.0.2.1');
  expect(recent.isAlone('198.51.100.0/24')).toBe(false);
});

test('a network without noted requests is not alone when another has some', () => {
  const { recent } = openRecent();
  recent.note('2001:db8:1::1');
  expect(recent.isAlone('192.0.2.0/24')).toBe(false);
  expect(recent.isAlone('2001:db8:1::/48')).toBe(true);
});

test('a network is forgotten five to ten seconds after its last request', () => {
  const { recent, pass } = openRecent();
  recent.note('198.51.100.1');
  pass(4_999);
  recent.note('192.0.2.1');
  pass(5_000);
  expect(recent.isAlone('192.0.2.0/24')).toBe(false);
  recent.note('192.0.2.1');
  pass(5_000);
  expect(recent.isAlone('192.0.2.0/24')).toBe(true);
  recent.note('198.51.100.1');
  expect(recent.isAlone('192.0.2.0/24')).toBe(false);
  pass(60_000);
  expect(recent.isAlone('192.0.2.0/24')).toBe(true);
});
