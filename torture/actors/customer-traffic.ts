// Continuous customer traffic while a scenario injects faults.

import type { Simulation } from '../environment/simulation.ts';
import { type SeededRandom, seededRandom } from '../seeded-random.ts';
import { payAtTheDoor } from './cash-customer.ts';
import { liveOnCredit } from './credit-customer.ts';
import {
  changeOrder,
  checkStatus,
  type Paid,
  type PlacedOrder,
  type Purchase,
  payOrder,
  placeOrder,
  type Shopping,
} from './customer.ts';
import { cancelOrder, followDelivery } from './delivery-customer.ts';
import { phoneOf } from './phone.ts';

export interface CustomerTraffic {
  /** Number of customers, and their outcomes as seen by them. */
  counts(): Record<string, number>;
  /** Starts no new customers; resolves when all have finished. */
  end(): Promise<void>;
}

/**
 * Starts concurrent customers, each with a random preferred process.
 * @param seenBefore customers of earlier rounds of this simulation
 */
export function startCustomerTraffic(
  simulation: Simulation,
  seed: number,
  customers: number,
  seenBefore = 0,
): CustomerTraffic {
  const counts: Record<string, number> = {};
  const note = (word: string) => {
    counts[word] = (counts[word] ?? 0) + 1;
  };
  let next = seenBefore;
  let hasEnded = false;

  async function customer(index: number): Promise<void> {
    const random = seededRandom(seed, `customer ${index}`);
    const single = random.is(0.05) ? simulation.takeSingleUnit() : null;
    const ending = single ? '9006' : random.is(0.8) ? '5678' : random.pick(['1032', '9003', '0001']);
    const purchase: Purchase = {
      ...(single ? purchaseOf(simulation, [single]) : chooseDrinks(simulation, random)),
      phone: phoneOf(index, '07', ending),
      address: `10.${(index >> 16) & 255}.${(index >> 8) & 255}.${index & 255}`,
    };
    const shopping = simulation.shopping(() => random.below(2));
    const order = single
      ? await placeOrder(shopping, purchase)
      : await orderDrinks(simulation, shopping, purchase, random);
    if ('kind' in order) return note(`order: ${order.kind}`);
    if (!single && random.is(0.15))
      return note(await payAtTheDoor(simulation, shopping, purchase, order, random));
    const paid = await payOrder(shopping, purchase, order);
    if (paid.kind !== 'prompted') return note(`prompt: ${paid.kind}`);
    if (!single && random.is(0.08)) return note(await cancelWhilePrompted(shopping, purchase, order, random));
    for (let look = 0; look < 4; look += 1) {
      await new Promise((done) => setTimeout(done, 250));
      const status = await checkStatus(shopping, purchase, paid.reference);
      if (status === null || status === 'pending') continue;
      note(status);
      if (status === 'failed' && single)
        note(await buyReleasedUnit(simulation, shopping, purchase, order, index));
      if (status === 'completed') note(await actAfterPayment(simulation, shopping, purchase, order, random));
      return;
    }
    note('left before the end');
  }

  const finished = Promise.all(
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
      await finished;
    },
  };
}

type Product = Simulation['products'][number];
type DiscountCode = Simulation['discountCodes'][number];

/** The drinks and the total of a purchase of one unit each. */
export function purchaseOf(simulation: Simulation, products: readonly Product[], discount?: DiscountCode) {
  const { deliveryFee } = simulation;
  const drinks = products.reduce((sum, { price }) => sum + price, 0);
  return {
    productIds: products.map(({ id }) => id),
    total: drinks + deliveryFee - (discount ? discountOn(discount, drinks, deliveryFee) : 0),
    ...(discount ? { discountCode: discount.code } : {}),
  };
}

/** As the database computes it: rounded up to whole shillings, and one shilling is left to pay. */
function discountOn({ percent, amountCents }: DiscountCode, drinks: number, fee: number): number {
  const off = amountCents ?? Math.floor((drinks * (percent ?? 0) + 9_999) / 10_000) * 100;
  return Math.max(0, Math.min(off, drinks, drinks + fee - 100));
}

/** One to three different drinks, with a code if the purchase has one. */
export function chooseDrinks(simulation: Simulation, random: SeededRandom, discountCode?: string) {
  const wanted = random.is(0.6) ? 1 : 2 + random.below(2);
  const chosen = new Set<Product>();
  while (chosen.size < wanted) chosen.add(random.pick(simulation.products));
  const discount = simulation.discountCodes.find(({ code }) => code === discountCode);
  return purchaseOf(simulation, [...chosen], discount);
}

/** Places an order, some with a discount code; some customers change their minds before they pay. */
export async function orderDrinks(
  simulation: Simulation,
  shopping: Shopping,
  purchase: Purchase,
  random: SeededRandom,
): Promise<PlacedOrder | Paid> {
  const discountCode = random.is(0.25) ? random.pick(simulation.discountCodes).code : undefined;
  let chosen: Purchase = discountCode
    ? { ...purchase, ...chooseDrinks(simulation, random, discountCode) }
    : purchase;
  let order = await placeOrder(shopping, chosen);
  // The code has no use left: they order without it.
  if ('kind' in order && order.kind === 'refused' && order.code.startsWith('discount_')) {
    chosen = purchase;
    order = await placeOrder(shopping, chosen);
  }
  if ('kind' in order || !random.is(0.15)) return order;
  return changeOrder(
    shopping,
    { ...chosen, ...chooseDrinks(simulation, random, chosen.discountCode) },
    order,
  );
}

/**
 * Releases the reserved last unit of a failed payment and sells it to another customer, so that late money finds it gone.
 */
export async function buyReleasedUnit(
  simulation: Simulation,
  shopping: Shopping,
  purchase: Purchase,
  order: PlacedOrder,
  index: number,
): Promise<string> {
  await simulation.expireReservation(order.id);
  const other = { ...purchase, phone: phoneOf(index, '01', '5678') };
  const bought = await placeOrder(shopping, other);
  if ('kind' in bought) {
    return `the last unit was not sold again: ${bought.kind === 'refused' ? bought.code : bought.kind}`;
  }
  const paid = await payOrder(shopping, other, bought);
  return `the last unit was sold again, prompt: ${paid.kind}`;
}

/** Cancels an order whose prompt is open: its money may still arrive. */
export async function cancelWhilePrompted(
  shopping: Shopping,
  purchase: Purchase,
  order: PlacedOrder,
  random: SeededRandom,
): Promise<string> {
  await new Promise((done) => setTimeout(done, random.below(400)));
  const isCancelled = await cancelOrder(shopping, purchase, order, 'unpaid', random);
  return isCancelled ? 'cancelled before the payment arrived' : 'the payment was faster than cancelling';
}

/**
 * Actions of some customers after payment: pay again without a prompt, pay without a reference, have staff cancel the order, have money
 * kept for them, which pays their next order, or follow its delivery.
 */
export async function actAfterPayment(
  simulation: Simulation,
  shopping: Shopping,
  purchase: Purchase,
  order: PlacedOrder,
  random: SeededRandom,
): Promise<string> {
  const amount = Math.ceil(order.total_amount / 100);
  const drawn = random.next();
  if (drawn < 0.1) {
    const receipt = await simulation.payWithoutPrompt(purchase.phone, amount, order.tracking_number);
    return receipt ? 'paid once more by hand' : 'turned away at the till';
  }
  if (drawn < 0.13) {
    // Less than any order costs, so it matches none.
    const receipt = await simulation.payWithoutPrompt(purchase.phone, 1 + random.below(50), '');
    return receipt ? 'paid for nothing' : 'turned away at the till';
  }
  if (drawn < 0.18)
    return (await simulation.staff.cancel(order.id)) ? 'cancelled the order' : 'failed to cancel';
  if (drawn < 0.4) return liveOnCredit(simulation, shopping, purchase, order, random);
  if (drawn < 0.8) return followDelivery(simulation, shopping, purchase, order, random);
  return 'content';
}
