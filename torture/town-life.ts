// Customers who come and go while something is done to the shop.
import { chanceOf } from './chance.ts';
import { lookAt, type Purchase, payOrder, placeOrder } from './customer.ts';
import { phoneOf } from './phone.ts';
import type { Town } from './town.ts';

export interface TownLife {
  /** How many have been through it, and what became of them in their own eyes. */
  counts(): Record<string, number>;
  /** Nobody new comes; resolves when everybody has left. */
  end(): Promise<void>;
}

/**
 * Lets customers in, a few at the same time, each choosing by chance which process to ask first.
 * @param seenBefore how many have been in this town already
 */
export function startTownLife(town: Town, seed: number, customers: number, seenBefore = 0): TownLife {
  const counts: Record<string, number> = {};
  const note = (word: string) => {
    counts[word] = (counts[word] ?? 0) + 1;
  };
  let next = seenBefore;
  let hasEnded = false;

  async function customer(index: number): Promise<void> {
    const chance = chanceOf(seed, `customer ${index}`);
    const product = chance.pick(town.products);
    const ending = chance.is(0.8) ? '5678' : chance.pick(['1032', '9003', '0001']);
    const purchase: Purchase = {
      productId: product.id,
      total: product.price + town.deliveryFee,
      phone: phoneOf(index, '07', ending),
      address: `10.${(index >> 16) & 255}.${(index >> 8) & 255}.${index & 255}`,
    };
    const shopping = town.shopping(() => chance.below(2));
    const order = await placeOrder(shopping, purchase);
    if ('kind' in order) return note(`order: ${order.kind}`);
    const paid = await payOrder(shopping, purchase, order);
    if (paid.kind !== 'asked') return note(`prompt: ${paid.kind}`);
    for (let look = 0; look < 4; look += 1) {
      await new Promise((done) => setTimeout(done, 250));
      const status = await lookAt(shopping, purchase, paid.reference);
      if (status !== null && status !== 'pending') return note(status);
    }
    note('left before the end');
  }

  const everybody = Promise.all(
    Array.from({ length: customers }, async () => {
      while (!hasEnded) {
        next += 1;
        await customer(next);
      }
    }),
  );
  return {
    counts: () => ({ customers: next - seenBefore, ...counts }),
    async end() {
      hasEnded = true;
      await everybody;
    },
  };
}
