import { expect, test } from 'vitest';
import { Presences } from './presence.ts';

test('counts the bytes of a presence once, however often it is updated', () => {
  const presences = new Presences();
  const [one, other] = [{}, {}];
  const track = (member: object, bytes: number) =>
    presences.track('topic', member, { key: 'a', bytes, payload: {} });
  track(one, 100);
  track(other, 50);
  track(one, 70);
  expect([presences.bytesOf('topic'), presences.bytesOf('topic', one)]).toEqual([120, 70]);
  presences.untrack('topic', one);
  expect([presences.bytesOf('topic'), presences.bytesOf('topic', one)]).toEqual([50, 0]);
});
