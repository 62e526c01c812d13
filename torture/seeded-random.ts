// Seeded random numbers: the same seed and name produce the same numbers, in any order of events.
import { createHash } from 'node:crypto';

export interface SeededRandom {
  /** From 0 to just below 1. */
  next(): number;
  /** A whole number from 0 to just below `limit`. */
  below(limit: number): number;
  /** True in this share of cases. */
  is(share: number): boolean;
  pick<Item>(items: readonly Item[]): Item;
}

/**
 * Random numbers for one purpose.
 * @param seed of the whole run
 * @param name of the purpose: other names are independent
 */
export function seededRandom(seed: number, name: string): SeededRandom {
  let state = createHash('sha256').update(`${seed} ${name}`).digest().readUInt32LE(0);
  // Mulberry32: small, and sufficient to choose faults.
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  return {
    next,
    below: (limit) => Math.floor(next() * limit),
    is: (share) => next() < share,
    pick(items) {
      const item = items[Math.floor(next() * items.length)];
      if (item === undefined) throw new Error('there is nothing to pick from');
      return item;
    },
  };
}
