import { expect, test } from 'vitest';
import { networksOf } from '../../limits/network.ts';
import { ConnectionSlots } from './connection-slots.ts';

const open = (slots: ConnectionSlots, address: string, closed: string[] = []) =>
  slots.take(networksOf(address), () => closed.push(address));

test('limits slots per network, and eight times as many for a wider one', () => {
  const slots = new ConnectionSlots({ connections: 1000, connectionsPerNetwork: 2 });
  const taken = (addresses: string[]) => addresses.filter((address) => open(slots, address)).length;
  expect(taken(Array.from({ length: 10 }, () => '2001:db8:1::1'))).toBe(2);
  expect(taken(Array.from({ length: 100 }, (_, n) => `2001:db8:1:${n}00::1`))).toBe(14);
  expect(taken(['2001:db8:2::1'])).toBe(1);
});

test('when all are taken, the network with the most slots loses one, until all have as many', () => {
  const slots = new ConnectionSlots({ connections: 10, connectionsPerNetwork: 100 });
  const closed: string[] = [];
  for (let n = 0; n < 10; n += 1) open(slots, `192.0.2.${n}`, closed);
  const ofOthers = Array.from({ length: 10 }, () => open(slots, '198.51.100.1', closed));
  expect(ofOthers.filter(Boolean)).toHaveLength(5);
  expect(closed).toEqual([0, 1, 2, 3, 4].map((n) => `192.0.2.${n}`));
  expect(open(slots, '192.0.2.200', closed)).toBeNull();
  expect(open(slots, '203.0.113.1', closed)).not.toBeNull();
});

test('a network above its own limit disconnects no other', () => {
  const slots = new ConnectionSlots({ connections: 4, connectionsPerNetwork: 1 });
  const closed: string[] = [];
  for (const address of ['192.0.2.1', '192.0.2.2', '192.0.2.3', '198.51.100.1']) open(slots, address, closed);
  expect(open(slots, '198.51.100.1', closed)).toBeNull();
  expect(closed).toEqual([]);
});

test('a slot is released once', () => {
  const slots = new ConnectionSlots({ connections: 2, connectionsPerNetwork: 100 });
  const release = open(slots, '192.0.2.1');
  open(slots, '192.0.2.2');
  release?.();
  release?.();
  expect(open(slots, '192.0.2.3')).not.toBeNull();
  expect(open(slots, '192.0.2.4')).toBeNull();
});
