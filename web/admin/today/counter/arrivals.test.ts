import { expect, test } from 'vitest';
import { type Arrivals, markSeen, noArrivals, type QueuedOrder, updateArrivals } from './arrivals.ts';

/** Orders by their ids; one that is begun with ends with '!'. */
const queue = (...ids: string[]): QueuedOrder[] =>
  ids.map((id) => ({ id: id.replace('!', ''), isUntouched: !id.endsWith('!') }));
const after = (...queues: (readonly string[] | undefined)[]): Arrivals =>
  queues.reduce((before, ids) => updateArrivals(before, ids && queue(...ids)), noArrivals);

test('orders of the first answer are not new', () => {
  expect(after(undefined, ['a', 'b']).fresh).toEqual([]);
});

test('an order that comes later is new until it was looked at', () => {
  const arrived = after(['a'], ['a', 'b']);
  expect(arrived.fresh).toEqual(['b']);
  expect(updateArrivals(arrived, queue('a', 'b')).fresh).toEqual(['b']);
  expect(updateArrivals(markSeen(arrived, 'b'), queue('a', 'b')).fresh).toEqual([]);
});

test('an order that comes back by an undo is not new', () => {
  expect(after(['a', 'b'], ['a'], ['a', 'b']).fresh).toEqual([]);
});

test('a new order that someone begins with is not announced any more, and not when it is given back', () => {
  expect(after(['a'], ['a', 'b'], ['a', 'b!']).fresh).toEqual([]);
  expect(after(['a'], ['a', 'b'], ['a', 'b!'], ['a', 'b']).fresh).toEqual([]);
});

test('a new order that leaves the queue is not announced any more', () => {
  expect(after(['a'], ['a', 'b'], ['a']).fresh).toEqual([]);
});

test('an answer that changes nothing keeps the state, so that nothing is drawn again', () => {
  const arrived = after(['a'], ['a', 'b']);
  expect(updateArrivals(arrived, queue('b', 'a'))).toBe(arrived);
  expect(markSeen(arrived, 'a')).toBe(arrived);
});
