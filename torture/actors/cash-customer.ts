// Customers who pay in cash at the door: they choose it, or staff agree; a rider collects it, or the customer brings it; staff note it, take
// a mistake back, and give it back. Some pay by M-PESA, too, or cancel in the meantime.
import type { Simulation } from '../environment/simulation.ts';
import type { SeededRandom } from '../seeded-random.ts';
import { findPayment } from './credit-customer.ts';
import { callShop, type PlacedOrder, type Purchase, payOrder, type Shopping } from './customer.ts';
import { assign, cancelOrder, findRide, press, type Ride, readCode } from './delivery-customer.ts';

/** Whether the order will be paid at the door. Customers may be refused, as strangers in a busy network. */
async function chooseCash(ride: Ride): Promise<boolean> {
  const { simulation, shopping, purchase, order, random } = ride;
  const given = { order_id: order.id, access_key: order.access_key };
  if (random.is(0.5)) {
    const answers = await Promise.all(
      Array.from({ length: random.is(0.3) ? 2 : 1 }, () =>
        callShop(shopping, purchase, 'choose_cash', given),
      ),
    );
    if (answers.some((answer) => answer?.status === 200)) return true;
  }
  // The answer of agree_cash is empty, also when it was lost.
  await simulation.staff.call('agree_cash', { order_id: order.id });
  return (await findRide(ride)) !== null;
}

/** A rider takes it to the door and collects the cash. Returns who has it. */
async function collectAtTheDoor(ride: Ride, chargeCents: number): Promise<string | null> {
  const { simulation, random } = ride;
  const rider = random.pick(simulation.riders);
  if (!(await assign(ride, rider))) return null;
  await press(ride, rider, 'picked_up');
  const code = await readCode(ride);
  if (code === null) return null;
  // The rider forgets the amount, or confirms that it is another one.
  if (random.is(0.2)) await press(ride, rider, 'delivered', { code });
  const isLess = random.is(0.15);
  const outcome = await press(ride, rider, 'delivered', {
    code,
    received_cents: chargeCents - (isLess ? 5_000 : 0),
    is_other_amount: isLess,
  });
  return outcome === 'done' ? rider.name : null;
}

/** Staff note the cash of an order, in the amount that it costs or another one. */
function receive({ simulation, random, order }: Ride, chargeCents: number, from: string | null) {
  const [cents, difference, note] = random.pick([
    [0, undefined],
    [0, undefined],
    [-5_000, 'forgiven', 'One bottle was warm'],
    [10_000, 'tip'],
    [10_000, 'credit'],
  ] as const);
  return simulation.staff.call('receive_cash', {
    order_id: order.id,
    received_cents: chargeCents + cents,
    received_from: from,
    difference,
    note,
  });
}

/** What becomes of an order that is paid in cash. Returns the outcome, for the report. */
export async function payAtTheDoor(
  simulation: Simulation,
  shopping: Shopping,
  purchase: Purchase,
  order: PlacedOrder,
  random: SeededRandom,
): Promise<string> {
  const charge = Math.ceil(order.total_amount / 100) * 100;
  const before: Ride = { simulation, shopping, purchase, order, random, deliveryId: '' };
  // Some have a prompt on the phone at the same time.
  const [isChosen] = await Promise.all([
    chooseCash(before),
    random.is(0.15) ? payOrder(shopping, purchase, order) : null,
  ]);
  const ride = isChosen ? await findRide(before) : null;
  if (!ride) return 'cash was refused';
  const payByPhone = () =>
    simulation.payWithoutPrompt(purchase.phone, charge / 100, order.tracking_number).catch(() => null);
  const [from] = await Promise.all([
    random.is(0.7) ? collectAtTheDoor(ride, charge) : null,
    random.is(0.1) ? cancelOrder(shopping, purchase, order, 'unpaid', random) : null,
    random.is(0.1) ? simulation.expireReservation(order.id) : null,
    random.is(0.1) ? payByPhone() : null,
  ]);
  await Promise.all([receive(ride, charge, from), random.is(0.1) ? payByPhone() : null]);
  const noted = await findPayment(simulation, 'cash', order.id);
  if (noted === null) return 'cash was not received';
  const takeBack = () =>
    simulation.staff.call('take_back_cash', { payment_id: noted, reason: 'Of another order' });
  const giveBack = async () => {
    await simulation.staff.cancel(order.id);
    await simulation.staff.call('give_back_cash', { payment_id: noted, reason: 'Cancelled' });
  };
  const drawn = random.next();
  if (drawn < 0.35) {
    await Promise.all([
      takeBack(),
      random.is(0.2) ? payByPhone() : null,
      random.is(0.2) ? giveBack() : null,
      random.is(0.3) ? receive(ride, charge, from) : null,
    ]);
    if (random.is(0.7)) await receive(ride, charge, from);
    return 'cash taken back';
  }
  if (drawn < 0.6) {
    await Promise.all([giveBack(), random.is(0.3) ? takeBack() : null]);
    return 'cash given back';
  }
  return 'paid in cash';
}

/** Orders and payments in cash by what happened to them. */
export async function cashFigures({ query }: Simulation): Promise<Record<string, number>> {
  const rows = await query(
    `select 'cash agreed by ' || coalesce(e.actor, 'no one') as word, count(*)::integer as count
     from public.order_events as e where e.kind = 'cash_agreed' group by 1
     union all
     select 'cash collected by riders', count(*)::integer from public.order_events as e where e.kind = 'cash_collected'
     union all
     select 'payments in cash: ' || p.status, count(*)::integer from public.payments as p where p.method = 'cash' group by 1
     union all
     select 'refunds in cash', count(*)::integer from public.refunds as r where r.method = 'cash' and r.status = 'completed'
     order by word`,
  );
  return Object.fromEntries(rows.map(({ word, count }) => [word, count]));
}
