// What happens to a paid order: staff assign it to riders, who press on their pages, with waiting presses, wrong codes and two devices at
// once; some customers ask to cancel in the meantime.
import { randomUUID } from 'node:crypto';
import type { Simulation } from '../environment/simulation.ts';
import type { SeededRandom } from '../seeded-random.ts';
import { callShop, type PlacedOrder, type Purchase, type Shopping } from './customer.ts';
import { type Rider, renewLink } from './riders.ts';

export interface Ride {
  simulation: Simulation;
  shopping: Shopping;
  purchase: Purchase;
  order: PlacedOrder;
  random: SeededRandom;
  deliveryId: string;
}

export async function assign({ simulation, order, deliveryId }: Ride, rider: Rider): Promise<boolean> {
  const rows = await simulation
    .query('select updated_at::text from public.deliveries where id = $1', [deliveryId])
    .catch(() => []);
  if (!rows[0]) return false;
  const assigned = await simulation.staff.call('assign_delivery', {
    order_id: order.id,
    delivery_person: rider.name,
    delivery_phone: rider.phone,
    delivery_vehicle: 'Motorbike',
    seen_updated_at: rows[0].updated_at,
  });
  return assigned !== null;
}

/**
 * A press, sent until it is answered: from one device, twice at once, or from two devices with a press each.
 * @returns the outcome; null without an answer
 */
export async function press(ride: Ride, rider: Rider, step: string, given: Record<string, unknown> = {}) {
  const { simulation, shopping, purchase, random, deliveryId } = ride;
  const device = () => ({ press_key: randomUUID(), seconds_ago: random.is(0.3) ? random.below(600) : 0 });
  const first = device();
  const drawn = random.next();
  const devices = drawn < 0.2 ? [first, first] : drawn < 0.4 ? [first, device()] : [first];
  const send = async (sent: typeof first): Promise<string | null> => {
    for (let attempt = 0; attempt < 3; attempt += 1) {
      const answer = await callShop(shopping, purchase, 'rider_press', {
        secret: rider.secret,
        delivery_id: deliveryId,
        step,
        ...sent,
        ...given,
      });
      if (answer === null) return null;
      if (answer.status === 200) return answer.body.press.outcome as string;
      if (answer.body?.details !== 'rider_link_ended') return null;
      // What waits is sent with the next link of the rider.
      await renewLink(simulation.staff, rider);
    }
    return null;
  };
  const outcomes = await Promise.all(devices.map(send));
  return outcomes.find((outcome) => outcome === 'done') ?? outcomes[0] ?? null;
}

/** The code that the customer's page shows. */
export async function readCode({ shopping, purchase, order }: Ride): Promise<string | null> {
  const { tracking_number, access_key } = order;
  const answer = await callShop(shopping, purchase, 'track_order', { tracking_number, access_key });
  return (answer?.body?.proof_code as string | undefined) ?? null;
}
const wrong = (code: string) => String((Number(code) + 1) % 10_000).padStart(4, '0');

/** Cancels an order as its customer, perhaps from two devices at once. Returns whether the shop accepted it. */
export async function cancelOrder(
  shopping: Shopping,
  purchase: Purchase,
  { tracking_number, access_key }: PlacedOrder,
  expected_payment_status: 'unpaid' | 'paid',
  random: SeededRandom,
): Promise<boolean> {
  const given = { tracking_number, access_key, expected_payment_status };
  const answers = await Promise.all(
    Array.from({ length: random.is(0.3) ? 2 : 1 }, () =>
      callShop(shopping, purchase, 'cancel_own_order', given),
    ),
  );
  return answers.some((answer) => answer?.status === 200);
}

/** The ride of an order that has a delivery. Null: it has none, or the database is down. */
export async function findRide(ride: Ride): Promise<Ride | null> {
  const rows = await ride.simulation
    .query('select id from public.deliveries where order_id = $1', [ride.order.id])
    .catch(() => []);
  return rows[0] ? { ...ride, deliveryId: rows[0].id } : null;
}

async function askToCancel(ride: Ride): Promise<string> {
  const { simulation, shopping, purchase, order, random } = ride;
  const { staff } = simulation;
  const rider = random.pick(simulation.riders);
  // A rider may be faster.
  const [isAsked] = await Promise.all([
    cancelOrder(shopping, purchase, order, 'paid', random),
    random.is(0.3) ? assign(ride, rider).then(() => press(ride, rider, 'picked_up')) : null,
  ]);
  if (!isAsked) return 'too late to cancel';
  const { tracking_number, access_key } = order;
  const keep = () => callShop(shopping, purchase, 'keep_own_order', { tracking_number, access_key });
  const drawn = random.next();
  if (drawn < 0.2) {
    await keep();
    return 'kept the order';
  }
  if (drawn < 0.35) {
    await staff.call('decline_cancel_request', { order_id: order.id, reason: 'It is packed already' });
    return 'was not allowed to cancel';
  }
  await Promise.all([
    staff.call('grant_cancel_request', { order_id: order.id, sends_back: true }),
    random.is(0.2) ? keep() : null,
    random.is(0.2) ? press(ride, rider, 'picked_up') : null,
  ]);
  return 'cancelled the paid order';
}

/** What becomes of a paid order. Returns the outcome, for the report. */
export async function followDelivery(
  simulation: Simulation,
  shopping: Shopping,
  purchase: Purchase,
  order: PlacedOrder,
  random: SeededRandom,
): Promise<string> {
  const ride = await findRide({ simulation, shopping, purchase, order, random, deliveryId: '' });
  if (!ride) return 'no delivery was found';
  if (random.is(0.3)) return askToCancel(ride);
  let rider = random.pick(simulation.riders);
  if (!(await assign(ride, rider))) return 'not assigned';
  await press(ride, rider, 'picked_up');
  if (random.is(0.15)) {
    const before = rider;
    rider = random.pick(simulation.riders);
    // The former rider does not know yet.
    await Promise.all([assign(ride, rider), press(ride, before, 'in_transit')]);
  } else if (random.is(0.7)) await press(ride, rider, 'in_transit');
  const code = await readCode(ride);
  if (code === null) return 'no code was shown';
  for (let guess = random.is(0.3) ? 1 + random.below(6) : 0; guess > 0; guess -= 1)
    await press(ride, rider, 'delivered', { code: wrong(code) });
  if (random.is(0.15)) {
    await press(ride, rider, 'failed', { failure_reason: 'no_answer' });
    return 'not delivered';
  }
  // One device delivers while another one gives up.
  const [outcome] = await Promise.all([
    press(ride, rider, 'delivered', { code }),
    random.is(0.1) ? press(ride, rider, 'failed', { failure_reason: 'no_answer' }) : null,
  ]);
  if (outcome !== 'code_locked') return outcome === 'done' ? 'delivered by a rider' : `delivery: ${outcome}`;
  await simulation.staff.call('finish_without_code', {
    delivery_id: ride.deliveryId,
    reason: 'Confirmed by phone',
  });
  return 'delivered without the code';
}

/** Presses and requests to cancel by outcome. */
export async function deliveryFigures({ query }: Simulation): Promise<Record<string, number>> {
  const rows = await query(
    `select 'presses: ' || coalesce(p.outcome ->> 'outcome', 'none') as word, count(*)::integer as count from private.rider_presses as p group by 1
     union all
     select 'deliveries proven by ' || d.proven_by, count(*)::integer from public.deliveries as d where d.proven_by is not null group by 1
     union all
     select 'customers: ' || e.kind, count(*)::integer from public.order_events as e where e.kind like 'cancel\\_%' group by 1
     union all
     select 'orders cancelled by their customers', count(*)::integer from public.orders as o where o.cancel_reason = 'by_customer'
     order by word`,
  );
  return Object.fromEntries(rows.map(({ word, count }) => [word, count]));
}
