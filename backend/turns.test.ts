import { expect, test } from 'vitest';
import { createTurns, TooBusy } from './turns.ts';

/** Work that ends when it is told to, and notes that it began. */
function workshop(atOnce: number) {
  const turns = createTurns({ atOnce, mostWaiting: 6, mostWaitingOfOne: 4 });
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const bring = (who: string, name: string) => {
    const result = turns.take(who, async () => {
      begun.push(name);
      await new Promise<void>((done) => ends.set(name, done));
      return name;
    });
    result.catch(() => {});
    return result;
  };
  const finish = async (name: string, result: Promise<string>) => {
    ends.get(name)?.();
    expect(await result).toBe(name);
  };
  return { begun, bring, finish };
}

test('whoever brings much leaves a place for others, who come before the rest of it', async () => {
  const { begun, bring, finish } = workshop(2);
  const [a1] = ['a1', 'a2', 'a3'].map((name) => bring('a', name));
  expect(begun).toEqual(['a1']);
  const b1 = bring('b', 'b1');
  const b2 = bring('b', 'b2');
  bring('c', 'c1');
  expect(begun).toEqual(['a1', 'b1']);
  if (a1) await finish('a1', a1);
  expect(begun).toEqual(['a1', 'b1', 'a2']);
  await finish('b1', b1);
  expect(begun).toEqual(['a1', 'b1', 'a2', 'b2']);
  await finish('b2', b2);
  expect(begun).toEqual(['a1', 'b1', 'a2', 'b2', 'c1']);
});

test('work that fails makes place as well', async () => {
  const turns = createTurns({ atOnce: 1, mostWaiting: 1, mostWaitingOfOne: 1 });
  const failing = turns.take('a', async () => {
    throw new Error('broken');
  });
  const next = turns.take('a', async () => 'done');
  await expect(failing).rejects.toThrow('broken');
  expect(await next).toBe('done');
});

test('so much waits, of one and of all', async () => {
  const { bring } = workshop(1);
  for (const name of ['a0', 'a1', 'a2', 'a3', 'a4']) bring('a', name);
  await expect(bring('a', 'a5')).rejects.toThrow(TooBusy);
  for (const name of ['b1', 'b2']) bring('b', name);
  await expect(bring('c', 'c1')).rejects.toThrow(TooBusy);
});
