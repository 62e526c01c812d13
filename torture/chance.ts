// Chance that can be repeated: the same seed and the same name give the same numbers, in whatever order things happen.
import { createHash } from 'node:crypto';

export interface Chance {
  /** From 0 to just below 1. */
  next(): number;
  /** A whole number from 0 to just below `limit`. */
  below(limit: number): number;
  /** True in this share of cases. */
  is(share: number): boolean;
  pick<Item>(items: readonly Item[]): Item;
}

/**
 * Chance for one purpose.
 * @param seed of the whole run
 * @param name what is decided by it: other names are independent of it
 */
export function chanceOf(seed: number, name: string): Chance {
  let state = createHash('sha256').update(`${seed} ${name}`).digest().readUInt32LE(0);
  // Mulberry32: small, and good enough for choosing faults.
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
