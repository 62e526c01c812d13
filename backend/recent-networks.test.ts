import { expect, test } from 'vitest';
import { RecentNetworks } from './recent-networks.ts';

function openRecent() {
  let time = 0;
  const recent = new RecentNetworks(() => time);
  return { recent, pass: (ms: number) => (time += ms) };
}

test('a network is alone until another one comes', () => {
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

test('somebody whose own requests were not noted is not alone beside those that were', () => {
  const { recent } = openRecent();
  recent.note('2001:db8:1::1');
  expect(recent.isAlone('192.0.2.0/24')).toBe(false);
  expect(recent.isAlone('2001:db8:1::/48')).toBe(true);
});

test('who was here is forgotten after five to ten seconds without a request', () => {
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
