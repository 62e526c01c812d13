// Customers who come and go while something is done to the shop.
import { type Chance, chanceOf } from './chance.ts';
import { lookAt, type PlacedOrder, type Purchase, payOrder, placeOrder, type Shopping } from './customer.ts';
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
    const single = chance.is(0.05) ? town.takeSingle() : null;
    const product = single ?? chance.pick(town.products);
    const ending = single ? '9006' : chance.is(0.8) ? '5678' : chance.pick(['1032', '9003', '0001']);
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
      if (status === null || status === 'pending') continue;
      note(status);
      if (status === 'failed' && single) note(await buyWhatWasKept(town, shopping, purchase, order, index));
      if (status === 'completed') note(await thinkAgain(town, purchase, order, chance));
      return;
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

/**
 * Somebody else buys the last unit, which is kept no longer for whose prompt failed: when that money comes after all, the
 * order is gone.
 */
export async function buyWhatWasKept(
  town: Town,
  shopping: Shopping,
  purchase: Purchase,
  order: PlacedOrder,
  index: number,
): Promise<string> {
  await town.runOut(order.id);
  const other = { ...purchase, phone: phoneOf(index, '01', '5678') };
  const bought = await placeOrder(shopping, other);
  if ('kind' in bought) {
    return `the last unit was not sold again: ${bought.kind === 'refused' ? bought.code : bought.kind}`;
  }
  const paid = await payOrder(shopping, other, bought);
  return `the last unit was sold again, prompt: ${paid.kind}`;
}

/** What some do who have paid: pay once more from the menu of the phone, pay somebody else's rent, or give the order back. */
export async function thinkAgain(
  town: Town,
  purchase: Purchase,
  order: PlacedOrder,
  chance: Chance,
): Promise<string> {
  const amount = Math.ceil(order.total_amount / 100);
  const drawn = chance.next();
  if (drawn < 0.1) {
    const receipt = await town.payByHand(purchase.phone, amount, order.tracking_number);
    return receipt ? 'paid once more by hand' : 'turned away at the till';
  }
  if (drawn < 0.13) {
    // Less than anything costs: it is nobody's.
    const receipt = await town.payByHand(purchase.phone, 1 + chance.below(50), '');
    return receipt ? 'paid for nothing' : 'turned away at the till';
  }
  if (drawn < 0.18) return (await town.desk.cancel(order.id)) ? 'gave the order back' : 'kept the order';
  return 'content';
}
