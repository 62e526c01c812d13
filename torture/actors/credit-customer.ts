// Customers to whom the shop owes money: it pays their next order, is taken back, given back, or refunded with the order that it came from.
import type { Simulation } from '../environment/simulation.ts';
import type { SeededRandom } from '../seeded-random.ts';
import { type PlacedOrder, type Purchase, placeOrder, type Shopping } from './customer.ts';

interface Credit {
  simulation: Simulation;
  shopping: Shopping;
  purchase: Purchase;
  random: SeededRandom;
}

/** The newest completed payment of an order by cash or credit, or of a receipt. Null while the database is down. */
export async function findPayment(
  simulation: Simulation,
  method: string,
  orderId: string,
): Promise<string | null> {
  const rows = await simulation
    .query(
      `select id from public.payments where order_id = $1 and method = $2 and status = 'completed' order by created_at desc limit 1`,
      [orderId, method],
    )
    .catch(() => []);
  return (rows[0]?.id as string | undefined) ?? null;
}

/** Money beyond the charge of an order, owed to its customer: in cash, or paid twice and kept. Returns its payment. */
async function owe(
  credit: Credit,
  paid: PlacedOrder,
): Promise<{ paymentId: string; order: PlacedOrder } | null> {
  const { simulation, shopping, purchase, random } = credit;
  if (random.is(0.4)) {
    const amount = Math.ceil(paid.total_amount / 100);
    const receipt = await simulation.payWithoutPrompt(purchase.phone, amount, paid.tracking_number);
    if (receipt === null) return null;
    // Another staff member may be sending it back. M-PESA's confirmation takes a moment, or is lost.
    for (let look = 0; look < 5; look += 1) {
      await new Promise((done) => setTimeout(done, 300));
      const kept = await simulation.staff.call('resolve_difference', { decision: 'accept', receipt });
      if (kept?.payment_id) return { paymentId: kept.payment_id, order: paid };
    }
    return null;
  }
  const order = await placeOrder(shopping, purchase);
  if ('kind' in order) return null;
  const charge = Math.ceil(order.total_amount / 100) * 100;
  const surplus = random.pick([20_000, charge, charge + 50_000]);
  const given = { order_id: order.id, received_cents: charge + surplus, difference: 'credit' };
  const payment = await simulation.staff.call('receive_cash', given);
  return payment?.id ? { paymentId: payment.id, order } : null;
}

/** Pays an order from credit, perhaps with cash for the rest. */
async function payFromCredit({ simulation, random }: Credit, order: PlacedOrder): Promise<boolean> {
  if (await simulation.staff.call('use_credit', { order_id: order.id })) return true;
  const charge = Math.ceil(order.total_amount / 100) * 100;
  return Boolean(
    await simulation.staff.call('receive_cash', {
      order_id: order.id,
      received_cents: charge - random.pick([10_000, 20_000]),
      difference: 'from_credit',
    }),
  );
}

/** What a customer does with credit. Returns the outcome, for the report. */
export async function liveOnCredit(
  simulation: Simulation,
  shopping: Shopping,
  purchase: Purchase,
  paid: PlacedOrder,
  random: SeededRandom,
): Promise<string> {
  const credit: Credit = { simulation, shopping, purchase, random };
  const { staff } = simulation;
  const source = await owe(credit, paid);
  if (!source) return 'nothing was owed';
  const order = await placeOrder(shopping, purchase);
  if ('kind' in order) return 'owed, no further order';
  const giveBack = () =>
    staff.call('note_change', {
      payment_id: source.paymentId,
      kind: 'returned',
      amount_cents: random.pick([5_000, 20_000]),
      way: 'cash',
    });
  // Staff members act at the same time.
  const [isPaid] = await Promise.all([
    payFromCredit(credit, order),
    random.is(0.3) ? giveBack() : null,
    random.is(0.1) ? simulation.expireReservation(order.id) : null,
  ]);
  const used = isPaid ? await findPayment(simulation, 'credit', order.id) : null;
  if (used === null) return 'owed, and not used';
  const takeBack = () => staff.call('take_back_credit', { payment_id: used, reason: 'Wrong customer' });
  const refundSource = async () => {
    await staff.cancel(source.order.id);
    return staff.call('give_back_cash', { payment_id: source.paymentId, reason: 'Cancelled' });
  };
  const drawn = random.next();
  if (drawn < 0.25) {
    await Promise.all([takeBack(), random.is(0.5) ? refundSource() : null]);
    await payFromCredit(credit, order);
    return 'credit taken back, and used again';
  }
  if (drawn < 0.6) {
    await Promise.all([staff.cancel(order.id), random.is(0.4) ? refundSource() : null]);
    await Promise.all([
      staff.call('request_refund', { payment_id: used, reason: 'Cancelled' }),
      random.is(0.3) ? takeBack() : null,
      random.is(0.3) ? refundSource() : null,
    ]);
    // What cannot be owed again goes back as money.
    await staff.call('give_back_cash', { payment_id: used, reason: 'Cancelled' });
    await giveBack();
    return 'order from credit cancelled';
  }
  if (drawn < 0.8) {
    const part = { payment_id: used, amount_cents: 5_000, way: 'cash', reason: 'One drink was missing' };
    await Promise.all([staff.call('refund_part', part), random.is(0.5) ? takeBack() : null]);
    return 'part of an order from credit went back';
  }
  return 'paid from credit';
}
