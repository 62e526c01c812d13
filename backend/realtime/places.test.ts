import { expect, test } from 'vitest';
import { networksOf } from '../network.ts';
import { Places } from './places.ts';

const open = (places: Places, address: string, closed: string[] = []) =>
  places.take(networksOf(address), () => closed.push(address));

test('limits places per network, and eight times as many for a wider one', () => {
  const places = new Places({ connections: 1000, connectionsPerNetwork: 2 });
  const taken = (addresses: string[]) => addresses.filter((address) => open(places, address)).length;
  expect(taken(Array.from({ length: 10 }, () => '2001:db8:1::1'))).toBe(2);
  expect(taken(Array.from({ length: 100 }, (_, n) => `2001:db8:1:${n}00::1`))).toBe(14);
  expect(taken(['2001:db8:2::1'])).toBe(1);
});

test('when all are taken, the network with the most places loses one, until all have as many', () => {
  const places = new Places({ connections: 10, connectionsPerNetwork: 100 });
  const closed: string[] = [];
  for (let n = 0; n < 10; n += 1) open(places, `192.0.2.${n}`, closed);
  const ofOthers = Array.from({ length: 10 }, () => open(places, '198.51.100.1', closed));
  expect(ofOthers.filter(Boolean)).toHaveLength(5);
  expect(closed).toEqual([0, 1, 2, 3, 4].map((n) => `192.0.2.${n}`));
  expect(open(places, '192.0.2.200', closed)).toBeNull();
  expect(open(places, '203.0.113.1', closed)).not.toBeNull();
});

test('a network above its own limit disconnects no other', () => {
  const places = new Places({ connections: 4, connectionsPerNetwork: 1 });
  const closed: string[] = [];
  for (const address of ['192.0.2.1', '192.0.2.2', '192.0.2.3', '198.51.100.1'])
    open(places, address, closed);
  expect(open(places, '198.51.100.1', closed)).toBeNull();
  expect(closed).toEqual([]);
});

test('a place is released once', () => {
  const places = new Places({ connections: 2, connectionsPerNetwork: 100 });
  const giveBack = open(places, '192.0.2.1');
  open(places, '192.0.2.2');
  giveBack?.();
  giveBack?.();
  expect(open(places, '192.0.2.3')).not.toBeNull();
  expect(open(places, '192.0.2.4')).toBeNull();
});
