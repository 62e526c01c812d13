// Model-based test of orders, deliveries and promises under a simulated clock: what customers, staff and riders do in any order, with presses
// that waited on a device, leaves the database equal to a small model after each step, and shows each person what the model says.
import { randomUUID } from 'node:crypto';
import { testDatabases } from '@jani-juice/backend/testing';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import type { DayOff, OpenSpan } from '../../../domain/deliveries/delivery-promise.ts';
import { isExhaustive } from '../../../scripts/tests/test-depth.ts';
import { makeProduct, type PlacedOrder, refusalOf } from '../shop-database.ts';
import { simulateClock } from '../simulated-clock.ts';
import { newPhone, setUpShop } from '../steps.ts';
import {
  dateOf,
  dayMinutes,
  inNairobi,
  minuteMs,
  modelledArrival,
  modelledEndOfDay,
} from './modelled-arrival.ts';

const PRICE = 95_000;
const FEE = 100;
const AGREED_FEE = 20_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
const SHIFT_MS = 16 * hourMs;
const MOST_WRONG_CODES = 5;
const SEED = Number(process.env.MODEL_SEED ?? 6);
/** Multiplies the number of sequences. */
const LENGTH = Number(process.env.MODEL_LENGTH ?? 1);

type DeliveryStatus = 'pending' | 'assigned' | 'picked_up' | 'in_transit' | 'delivered' | 'failed';
type Step = 'picked_up' | 'in_transit' | 'delivered' | 'failed';

interface ModelArea {
  id: string | null;
  /** Minutes of the promise. */
  from: number;
  to: number;
  needsAgreement: boolean;
}

interface ModelRider {
  id: string;
  name: string;
  phone: string;
  /** What the rider has opened last. */
  secret: string;
  /** Null: none is valid, because staff ended it. */
  linkEndsAt: number | null;
  presses: SentPress[];
}

interface SentPress {
  order: ModelOrder;
  given: Record<string, unknown>;
  outcome: string;
}

interface ModelDelivery {
  id: string;
  status: DeliveryStatus;
  /** Null: of no rider of the list. */
  rider: ModelRider | null;
  person: string | null;
  code: string;
  wrongCodes: number;
  provenBy: 'code' | 'staff' | null;
  collected: number | null;
  failureReason: string | null;
  failures: number;
  isPacked: boolean;
  createdAt: number;
  updatedAt: number;
  pickedUpAt: number | null;
  deliveredAt: number | null;
  /** When it was assigned, or its status changed. */
  lastStepAt: number;
}

interface ModelOrder {
  placed: PlacedOrder;
  area: ModelArea;
  status: 'pending' | 'processing' | 'out_for_delivery' | 'delivered' | 'cancelled';
  money: 'unpaid' | 'paid';
  isCash: boolean;
  awaitsAgreement: boolean;
  /** Since the epoch, in Nairobi. */
  deliveryDay: number | null;
  payableUntil: number;
  promisedAt: number | null;
  promisedAgainAt: number | null;
  delays: number;
  request: 'open' | 'declined' | null;
  cancelledBy: 'by_customer' | 'by_shop' | null;
  delivery: ModelDelivery | null;
  rating: { stars: number; at: number } | null;
}

interface Model {
  now: number;
  hours: OpenSpan[];
  daysOff: DayOff[];
  /** Null: orders are not paused. */
  pausedUntil: number | null;
  queueMinutes: number;
  /** Deliveries of other customers that wait in the shop. */
  waiting: number;
  areas: ModelArea[];
  riders: ModelRider[];
  orders: ModelOrder[];
  product: string;
}
type Real = ReturnType<typeof setUpShop> & { setClock(at: number): Promise<void> };
type Command = fc.AsyncCommand<Model, Real>;

// The model ---------------------------------------------------------------------------------------------------------------

const isBeforePickup = (status: DeliveryStatus) => status === 'pending' || status === 'assigned';
const isWithRider = (status: DeliveryStatus) => status === 'picked_up' || status === 'in_transit';
const wasPickedUp = (status: DeliveryStatus) => isWithRider(status) || status === 'delivered';
const isOpenDelivery = (status: DeliveryStatus) => status !== 'delivered' && status !== 'failed';
const isOpenOrder = ({ status }: ModelOrder) => status !== 'delivered' && status !== 'cancelled';
const isInShop = ({ status }: ModelOrder) => status === 'pending' || status === 'processing';
const isToDeliver = ({ money, isCash }: ModelOrder) => money === 'paid' || isCash;
const hasRequest = (order: ModelOrder) =>
  order.request === 'open' && order.money === 'paid' && isOpenOrder(order);
const asksForCode = ({ rider, status }: ModelDelivery) => rider !== null && isOpenDelivery(status);
const dayOf = (at: number) => Math.floor(inNairobi(at) / dayMinutes);
const isLinkValid = ({ linkEndsAt }: ModelRider, { now }: Model) => linkEndsAt !== null && linkEndsAt > now;

function queueMinutesNow(model: Model): number {
  const own = model.orders.filter(
    ({ delivery, deliveryDay }) =>
      delivery &&
      isBeforePickup(delivery.status) &&
      (deliveryDay === null || deliveryDay <= dayOf(model.now)),
  ).length;
  return Math.min(60, model.queueMinutes * Math.floor((own + model.waiting) / 10));
}
const promiseFor = (model: Model, { to }: ModelArea) =>
  modelledArrival(model, to + queueMinutesNow(model), model.now, model.pausedUntil);
const promiseOf = (model: Model, { area, deliveryDay }: ModelOrder) =>
  deliveryDay === null ? promiseFor(model, area) : modelledEndOfDay(model, deliveryDay);

/** The way from the shop to the door, as long as nothing was learned. */
const wayMinutes = ({ from, to }: ModelArea) => (to < dayMinutes ? from : null);

function wayToCancel(order: ModelOrder): 'at_once' | 'by_request' | null {
  if (order.money === 'unpaid' && !order.isCash) return order.status === 'pending' ? 'at_once' : null;
  if (!isInShop(order) || order.request !== null) return null;
  if (order.delivery?.isPacked || order.delivery?.status === 'failed') return null;
  return order.money === 'unpaid' ? 'at_once' : 'by_request';
}

function isLateWithoutNews(order: ModelOrder, { now }: Model): boolean {
  const { delivery, promisedAt } = order;
  if (!delivery || promisedAt === null || order.promisedAgainAt !== null || order.deliveryDay !== null)
    return false;
  if (!isOpenOrder(order) || !isToDeliver(order)) return false;
  if (promisedAt >= now || promisedAt <= now - hourMs) return false;
  if (isBeforePickup(delivery.status)) return true;
  return (
    isOpenDelivery(delivery.status) &&
    delivery.pickedUpAt !== null &&
    delivery.pickedUpAt < now - 30 * minuteMs
  );
}

/** Steps of five minutes, not earlier. */
const inFiveMinutes = (at: number) => Math.floor((at + 5 * minuteMs - 1000) / (5 * minuteMs)) * 5 * minuteMs;

/** A change of the delivery's row. */
function touch(delivery: ModelDelivery, { now }: Model): void {
  delivery.updatedAt = Math.max(now, delivery.updatedAt);
}

function changeDelivery(order: ModelOrder, status: DeliveryStatus, model: Model, at = model.now): void {
  const { delivery } = order;
  if (!delivery) return;
  const before = delivery.status;
  touch(delivery, model);
  if (status === 'failed' && !isInShop(order) && order.status !== 'cancelled') delivery.failures += 1;
  delivery.status = status;
  delivery.lastStepAt = at;
  if (status === 'delivered') delivery.deliveredAt = at;
  else delivery.deliveredAt = null;
  if (isBeforePickup(status)) delivery.pickedUpAt = null;
  if (status === 'picked_up') delivery.pickedUpAt = at;
  if (status === 'in_transit') delivery.pickedUpAt ??= at;
  if (wasPickedUp(status)) delivery.isPacked = true;
  if (status !== 'failed') delivery.failureReason = null;
  if (order.status === 'cancelled') return;
  if (isWithRider(status)) order.status = 'out_for_delivery';
  else if (status === 'delivered') order.status = 'delivered';
  else if (wasPickedUp(before)) order.status = 'processing';
}

function cancelOrder(order: ModelOrder, by: 'by_customer' | 'by_shop', model: Model): void {
  order.status = 'cancelled';
  order.cancelledBy = by;
  if (order.delivery && order.delivery.status !== 'delivered' && order.delivery.status !== 'failed')
    changeDelivery(order, 'failed', model);
}

const newDelivery = (id: string, code: string, now: number): ModelDelivery => ({
  id,
  status: 'pending',
  rider: null,
  person: null,
  code,
  wrongCodes: 0,
  provenBy: null,
  collected: null,
  failureReason: null,
  failures: 0,
  isPacked: false,
  createdAt: now,
  updatedAt: now,
  pickedUpAt: null,
  deliveredAt: null,
  lastStepAt: 0,
});

const rank: Record<DeliveryStatus, number> = {
  pending: 0,
  assigned: 1,
  picked_up: 2,
  in_transit: 3,
  delivered: 4,
  failed: 4,
};

interface PressGiven {
  step: Step;
  code: 'right' | 'wrong' | 'none';
  cash: 'exact' | 'less' | 'less, confirmed' | 'none';
  reason: 'no_answer' | 'unknown' | null;
  ageSeconds: number;
}

/** The outcome of a press, which it also applies. */
function applyPress(order: ModelOrder, rider: ModelRider, given: PressGiven, model: Model): string {
  const { delivery } = order;
  if (!delivery || delivery.rider !== rider) return 'not_yours';
  if (order.status === 'cancelled') return 'cancelled';
  if (hasRequest(order)) return 'asked_to_cancel';
  if (rank[delivery.status] >= rank[given.step]) return 'already';
  if (delivery.status === 'pending') return 'not_yours';
  const owesCash = order.money === 'unpaid';
  const cash = cashOf(order, given);
  const asks = asksForCode(delivery);
  if (given.step === 'delivered') {
    if (asks && delivery.wrongCodes >= MOST_WRONG_CODES) return 'code_locked';
    if (asks && given.code === 'none') return 'code_missing';
    if (asks && given.code === 'wrong') {
      delivery.wrongCodes += 1;
      touch(delivery, model);
      return delivery.wrongCodes === MOST_WRONG_CODES ? 'code_locked' : 'wrong_code';
    }
    if (owesCash && cash === null) return 'cash_missing';
    if (owesCash && given.cash === 'less') return 'cash_differs';
  } else if (given.step === 'failed' && given.reason !== 'no_answer') return 'reason_missing';
  const at = Math.max(
    model.now - Math.max(given.ageSeconds, 0) * 1000,
    delivery.createdAt,
    delivery.lastStepAt,
  );
  changeDelivery(order, given.step, model, at);
  if (given.step === 'failed') delivery.failureReason = given.reason;
  if (given.step === 'delivered') {
    if (asks) delivery.provenBy = 'code';
    // Also of an order that was paid in another way while its rider took the cash.
    if (cash !== null) delivery.collected = cash;
  }
  return 'done';
}
const cashOf = ({ placed }: ModelOrder, { cash }: PressGiven) =>
  cash === 'none' ? null : cash === 'exact' ? placed.charge_cents : placed.charge_cents - 100;

const mayRate = ({ status, delivery, rating }: ModelOrder, { now }: Model) =>
  status === 'delivered' &&
  delivery?.deliveredAt != null &&
  delivery.deliveredAt > now - 30 * dayMs &&
  (rating === null || rating.at > now - dayMs);

// Comparison of model and database ----------------------------------------------------------------------------------------

const msOf = (time: string | null | undefined) => (time ? Math.round(Date.parse(time)) : null);
/** A time in a row, rounded to milliseconds: rows are a microsecond apart. */
const ms = (column: string) => `floor(extract(epoch from ${column}) * 1000)::bigint::float`;

async function expectSameRows(model: Model, { readRows }: Real): Promise<void> {
  const rows = await readRows(
    `select o.status, o.payment_status as money, o.payment_method = 'cash' as is_cash, o.awaits_agreement,
       ${ms('o.promised_at')} as promised, ${ms('o.promised_again_at')} as promised_again, private.has_cancel_request(o) as has_request,
       (select count(distinct m.event_key)::int from public.outbox_messages as m where m.order_id = o.id and m.kind = 'order_delayed') as delays,
       (select max(n)::int from (select count(*) as n from public.outbox_messages as m
          where m.order_id = o.id and m.kind = 'order_delayed' group by m.channel) as of_channel) as delays_of_channel,
       d.delivery_status, d.rider_id, d.delivery_person, d.wrong_codes, d.proven_by, d.collected_cents, d.failure_reason, d.failures,
       d.ready_at is not null as is_packed, ${ms('d.created_at')} as created, ${ms('d.pickup_time')} as picked_up, ${ms('d.delivery_time')} as delivered,
       (select r.stars from public.ratings as r where r.order_id = o.id) as stars
     from jsonb_array_elements_text($1::jsonb) with ordinality as wanted (id, place)
     join public.orders as o on o.id = wanted.id::uuid
     left join public.deliveries as d on d.order_id = o.id order by wanted.place`,
    [JSON.stringify(model.orders.map(({ placed }) => placed.id))],
  );
  expect(rows).toEqual(
    model.orders.map((order) => ({
      status: order.status,
      money: order.money,
      is_cash: order.isCash,
      awaits_agreement: order.awaitsAgreement,
      promised: order.promisedAt,
      promised_again: order.promisedAgainAt,
      has_request: hasRequest(order),
      delays: order.delays,
      delays_of_channel: order.delays || null,
      delivery_status: order.delivery?.status ?? null,
      rider_id: order.delivery?.rider?.id ?? null,
      delivery_person: order.delivery?.person ?? null,
      wrong_codes: order.delivery?.wrongCodes ?? null,
      proven_by: order.delivery?.provenBy ?? null,
      collected_cents: order.delivery?.collected ?? null,
      failure_reason: order.delivery?.failureReason ?? null,
      failures: order.delivery?.failures ?? null,
      is_packed: order.delivery?.isPacked ?? false,
      created: order.delivery?.createdAt ?? null,
      picked_up: order.delivery?.pickedUpAt ?? null,
      delivered: order.delivery?.deliveredAt ?? null,
      stars: order.rating?.stars ?? null,
    })),
  );
}

interface Shown {
  is_masked: boolean;
  status: string;
  payment_status: string;
  customer_name?: string;
  proof_code?: string;
  promised_at?: string;
  promised_again_at?: string;
  arrives_at?: string;
  rider?: { first_name: string };
  may_rate?: boolean;
  way_to_cancel?: string;
  cancel_requested?: boolean;
  cancelled_because?: string;
  awaits_agreement?: boolean;
  id?: string;
  access_key?: string;
}

/** What the customer with the access key, one with digits of the phone, and a stranger see of an order. */
async function expectOrderShown(order: ModelOrder, model: Model, real: Real): Promise<void> {
  const { delivery, placed } = order;
  const isOpen = isOpenOrder(order);
  const isPromised = isOpen && order.promisedAt !== null;
  const way = wayMinutes(order.area);
  const publicFacts = {
    status: order.status,
    payment_status: order.money,
    promised_at: isPromised ? order.promisedAt : null,
    promised_again_at: isPromised ? order.promisedAgainAt : null,
    arrives_at:
      isPromised && order.status === 'out_for_delivery' && delivery?.pickedUpAt != null && way !== null
        ? delivery.pickedUpAt + way * minuteMs
        : null,
    cancel_requested: hasRequest(order),
    cancelled_because: order.status === 'cancelled' ? order.cancelledBy : null,
    awaits_agreement: order.awaitsAgreement && order.status !== 'cancelled',
  };
  const hidden = {
    is_masked: true,
    proof_code: null,
    rider: null,
    may_rate: false,
    way_to_cancel: null,
    id: null,
    has_key: false,
  };
  const open = {
    is_masked: false,
    rider:
      order.status === 'out_for_delivery' && delivery?.person
        ? (delivery.person.split(' ')[0] as string)
        : null,
    may_rate: mayRate(order, model),
    way_to_cancel: wayToCancel(order),
    id: placed.id,
    has_key: true,
  };
  const summary = (shown: Shown) => ({
    is_masked: shown.is_masked,
    status: shown.status,
    payment_status: shown.payment_status,
    promised_at: msOf(shown.promised_at),
    promised_again_at: msOf(shown.promised_again_at),
    arrives_at: msOf(shown.arrives_at),
    cancel_requested: shown.cancel_requested ?? false,
    cancelled_because: shown.cancelled_because ?? null,
    awaits_agreement: shown.awaits_agreement ?? false,
    proof_code: shown.proof_code ?? null,
    rider: shown.rider?.first_name ?? null,
    may_rate: shown.may_rate ?? false,
    way_to_cancel: shown.way_to_cancel ?? null,
    id: shown.id ?? null,
    has_key: shown.access_key !== undefined,
  });
  const proof_code = delivery && asksForCode(delivery) ? delivery.code : null;
  expect(summary(await real.trackAsCustomer(placed))).toEqual({ ...publicFacts, ...open, proof_code });
  const digits = { phone_last_four: placed.customer_phone.slice(-4) };
  // Every rider knows the digits.
  const withoutKey = delivery?.person ? { has_key: false, may_rate: false } : {};
  expect(summary(await real.track(placed, digits))).toEqual({
    ...publicFacts,
    ...open,
    ...withoutKey,
    proof_code: null,
  });
  expect(summary(await real.track(placed))).toEqual({ ...publicFacts, ...hidden });
}

interface Job {
  id: string;
  status: string;
  phone?: string;
  is_cancelled?: boolean;
}

async function expectRiderPage(rider: ModelRider, model: Model, real: Real): Promise<void> {
  const read = real.asVisitor<{ jobs: Job[] }>('rider_page', { secret: rider.secret });
  if (!isLinkValid(rider, model)) {
    expect(await refusalOf(read)).toBe('rider_link_ended');
    return;
  }
  const shown = model.orders.flatMap((order) => {
    const { delivery, placed } = order;
    if (!delivery || delivery.rider !== rider || delivery.status === 'pending') return [];
    const isOpen = isOpenDelivery(delivery.status);
    if (!isOpen && delivery.updatedAt <= model.now - hourMs) return [];
    // As private.due_at.
    const due =
      order.promisedAt ??
      (order.deliveryDay === null ? delivery.createdAt + hourMs : modelledEndOfDay(model, order.deliveryDay));
    return [
      {
        delivery,
        due,
        phone: isOpen ? placed.customer_phone : null,
        isCancelled: order.status === 'cancelled',
      },
    ];
  });
  const { jobs } = await read;
  expect(
    jobs.map(({ id, status, phone, is_cancelled }) => [id, status, phone ?? null, is_cancelled ?? false]),
  ).toEqual(
    shown
      .toSorted((one, other) => one.due - other.due || (one.delivery.id < other.delivery.id ? -1 : 1))
      .map(({ delivery, phone, isCancelled }) => [delivery.id, delivery.status, phone, isCancelled]),
  );
}

/** What every person sees is read of one order, so that a step takes milliseconds. */
async function expectSame(model: Model, real: Real, order: ModelOrder | undefined): Promise<void> {
  await expectSameRows(model, real);
  for (const shown of order ? [order] : model.orders) await expectOrderShown(shown, model, real);
  for (const rider of model.riders) await expectRiderPage(rider, model, real);
}

// What people do ----------------------------------------------------------------------------------------------------------

/** Acts and outcomes that have happened in any run. */
const seen = new Set<string>();

/** @param act applies the change to the model and the shop; returns the order that it was about, if only one */
const command = (
  name: string,
  check: (model: Readonly<Model>) => boolean,
  act: (model: Model, real: Real) => Promise<ModelOrder | undefined>,
): Command => ({
  check,
  async run(model, real) {
    const order = await act(model, real);
    seen.add(name.replace(/[ :].*/, ''));
    await expectSame(model, real, order);
  },
  toString: () => name,
});

const nth = <Item>(items: readonly Item[], number: number): Item => items[number % items.length] as Item;

/** An act on the nth order for which it is possible. */
const onOrder = (
  name: string,
  number: number,
  isPossible: (order: ModelOrder, model: Readonly<Model>) => boolean,
  act: (order: ModelOrder, model: Model, real: Real) => Promise<unknown>,
): Command =>
  command(
    `${name} of order ${number}`,
    (model) => model.orders.some((order) => isPossible(order, model)),
    async (model, real) => {
      const order = nth(
        model.orders.filter((candidate) => isPossible(candidate, model)),
        number,
      );
      await act(order, model, real);
      return order;
    },
  );

/** The outcome of a call that may be refused must be the expected one. */
async function expectOutcome(
  expected: string | null,
  attempt: Promise<unknown>,
  act: string,
): Promise<boolean> {
  expect(await refusalOf(attempt)).toBe(expected);
  if (expected !== null) seen.add(`${act}: ${expected}`);
  return expected === null;
}

const passTime = (ms: number): Command =>
  command(
    `time:${ms / minuteMs} minutes`,
    () => true,
    async (model, real) => {
      // A second more, so that no two moments are exactly an hour or a shift apart.
      model.now += ms + 1000;
      await real.setClock(model.now);
      return undefined;
    },
  );

const setHours = (hours: OpenSpan[], daysOff: number[]): Command =>
  command(
    `hours ${JSON.stringify(hours)}, off in ${daysOff} days`,
    () => true,
    async (model, { database }) => {
      model.hours = hours;
      model.daysOff = daysOff.map((days) => ({ day: dateOf(dayOf(model.now) + days), reason: 'Holiday' }));
      await database.query(
        'update public.store_settings set opening_hours = $1::jsonb, days_off = $2::jsonb where id',
        [JSON.stringify(model.hours), JSON.stringify(model.daysOff)],
      );
      return undefined;
    },
  );

const pause = (minutes: number): Command =>
  command(
    `pause ${minutes} minutes`,
    () => true,
    async (model, { asStaff }) => {
      await asStaff('pause_orders', { reason: 'Heavy rain', minutes });
      model.pausedUntil = model.now + minutes * minuteMs;
      return undefined;
    },
  );

const resume = command(
  'resume',
  ({ pausedUntil, now }) => pausedUntil !== null && pausedUntil > now,
  async (model, { asStaff }) => {
    await asStaff('resume_orders');
    model.pausedUntil = null;
    return undefined;
  },
);

const setQueue = (minutes: number): Command =>
  command(
    `queue ${minutes}`,
    () => true,
    async (model, { database }) => {
      model.queueMinutes = minutes;
      await database.query('update public.store_settings set queue_minutes = $1 where id', [minutes]);
      return undefined;
    },
  );

const setArea = (number: number, to: number): Command =>
  command(
    `area ${number} ${to}`,
    () => true,
    async (model, { database }) => {
      const area = nth(
        model.areas.filter(({ id }) => id !== null),
        number,
      );
      Object.assign(area, { from: Math.ceil(to / 3), to });
      await database.query(
        'update public.delivery_areas set promise_from_minutes = $2, promise_to_minutes = $3 where id = $1',
        [area.id, area.from, area.to],
      );
      return undefined;
    },
  );

const placeOrder = (areaNumber: number): Command =>
  command(
    `place in area ${areaNumber}`,
    ({ orders }) => orders.length < 9,
    async (model, real) => {
      const area = nth(model.areas, areaNumber);
      const attempt = real.place(model.product, {
        customer_phone: newPhone(),
        customer_name: 'Amina Kamau',
        area_id: area.id,
        expected_total: PRICE + (area.needsAgreement ? 0 : FEE),
      });
      const isPaused = model.pausedUntil !== null && model.pausedUntil > model.now;
      if (!(await expectOutcome(isPaused ? 'orders_paused' : null, attempt, 'place'))) return undefined;
      const order: ModelOrder = {
        placed: await attempt,
        area,
        status: 'pending',
        money: 'unpaid',
        isCash: false,
        awaitsAgreement: area.needsAgreement,
        deliveryDay: null,
        payableUntil: model.now + 10 * minuteMs,
        promisedAt: null,
        promisedAgainAt: null,
        delays: 0,
        request: null,
        cancelledBy: null,
        delivery: null,
        rating: null,
      };
      model.orders.push(order);
      return order;
    },
  );

const isPayable = (order: ModelOrder, { now }: Readonly<Model>) =>
  order.money === 'unpaid' &&
  !order.isCash &&
  !order.awaitsAgreement &&
  order.status === 'pending' &&
  order.payableUntil > now;

/** Fixes the promise before its own delivery counts in the queue. */
async function beginDelivery(order: ModelOrder, model: Model, real: Real): Promise<void> {
  order.promisedAt = promiseOf(model, order);
  order.status = 'processing';
  const row = await real.readRow<{ id: string; proof_code: string }>(
    'select id, proof_code from public.deliveries where order_id = $1',
    [order.placed.id],
  );
  if (!row) throw new Error('the order has no delivery');
  order.delivery = newDelivery(row.id, row.proof_code, model.now);
}

const pay = (number: number): Command =>
  onOrder('pay', number, isPayable, async (order, model, real) => {
    await real.pay(order.placed);
    order.money = 'paid';
    await beginDelivery(order, model, real);
  });

const agreeCash = (number: number): Command =>
  onOrder('cash', number, isPayable, async (order, model, real) => {
    await real.asStaff('agree_cash', { order_id: order.placed.id });
    order.isCash = true;
    await beginDelivery(order, model, real);
  });

const agreeDay = (number: number, inDays: number): Command =>
  onOrder(
    `agree:${inDays} days`,
    number,
    ({ area }) => area.needsAgreement,
    async (order, model, real) => {
      const day = dayOf(model.now) + inDays;
      const isClosed = !isOpenOrder(order);
      const isDone = await expectOutcome(
        isClosed ? 'order_closed' : null,
        real.asStaff('agree_delivery', {
          order_id: order.placed.id,
          fee_cents: AGREED_FEE,
          delivery_day: dateOf(day),
        }),
        'agree',
      );
      if (!isDone) return;
      if (order.promisedAt !== null && order.deliveryDay !== day) {
        order.deliveryDay = day;
        order.promisedAt = promiseOf(model, order);
        order.promisedAgainAt = null;
      }
      order.deliveryDay = day;
      if (order.awaitsAgreement) order.payableUntil = model.now + 10 * minuteMs;
      order.awaitsAgreement = false;
      order.placed.charge_cents = PRICE + AGREED_FEE;
    },
  );

/** Staff give a delivery to a rider of the list, or to one who is typed. */
const assign = (number: number, riderNumber: number | null): Command =>
  onOrder(
    `assign:rider ${riderNumber}`,
    number,
    ({ delivery }) => delivery !== null,
    async (order, model, real) => {
      const delivery = order.delivery as ModelDelivery;
      const rider = riderNumber === null ? null : nth(model.riders, riderNumber);
      const person = rider?.name ?? 'Typed Rider';
      const seen = await real.readValue('select updated_at::text from public.deliveries where id = $1', [
        delivery.id,
      ]);
      const isCalledOff = order.status === 'cancelled' && delivery.status !== 'delivered';
      const isSame = delivery.person === person;
      const isDone = await expectOutcome(
        isCalledOff && !isSame ? 'delivery_of_cancelled_order' : null,
        real.asStaff('assign_delivery', {
          order_id: order.placed.id,
          delivery_person: person,
          delivery_phone: rider?.phone ?? '0799000000',
          delivery_vehicle: 'Motorbike',
          seen_updated_at: seen,
        }),
        'assign',
      );
      if (!isDone || isSame) return;
      delivery.person = person;
      delivery.rider = rider;
      delivery.lastStepAt = Math.max(delivery.lastStepAt, model.now);
      touch(delivery, model);
      if (delivery.status === 'pending') delivery.status = 'assigned';
    },
  );

/** Staff set the status of a delivery. */
const setDelivery = (number: number, status: DeliveryStatus): Command =>
  onOrder(
    `set:${status}`,
    number,
    ({ delivery, status: ofOrder }) =>
      delivery !== null &&
      ofOrder !== 'cancelled' &&
      delivery.status !== 'delivered' &&
      delivery.status !== status,
    async (order, model, real) => {
      const delivery = order.delivery as ModelDelivery;
      const isStopped = hasRequest(order) && wasPickedUp(status) && !wasPickedUp(delivery.status);
      const isDone = await expectOutcome(
        isStopped ? 'cancel_requested' : null,
        real.asStaff('set_delivery_status', {
          delivery_id: delivery.id,
          status,
          expected_status: delivery.status,
          failure_reason: status === 'failed' ? 'other' : null,
        }),
        'set',
      );
      if (!isDone) return;
      changeDelivery(order, status, model);
      if (status === 'failed') delivery.failureReason = 'other';
    },
  );

const finishWithoutCode = (number: number): Command =>
  onOrder(
    'finish',
    number,
    ({ delivery }) => delivery !== null,
    async (order, model, real) => {
      const delivery = order.delivery as ModelDelivery;
      const isClosed = !isOpenDelivery(delivery.status) || delivery.person === null;
      const isDone = await expectOutcome(
        isClosed ? 'delivery_changed' : hasRequest(order) ? 'cancel_requested' : null,
        real.asStaff('finish_without_code', { delivery_id: delivery.id, reason: 'Confirmed by phone' }),
        'finish',
      );
      if (!isDone) return;
      changeDelivery(order, 'delivered', model);
      delivery.provenBy = 'staff';
    },
  );

const openLink = (number: number): Command =>
  command(
    `link of rider ${number}`,
    () => true,
    async (model, { asStaff }) => {
      const rider = nth(model.riders, number);
      const { secret } = await asStaff<{ secret: string }>('open_rider_link', { rider_id: rider.id });
      Object.assign(rider, { secret, linkEndsAt: model.now + SHIFT_MS });
      return undefined;
    },
  );

const revokeLink = (number: number): Command =>
  command(
    `revoke link of rider ${number}`,
    () => true,
    async (model, { asStaff }) => {
      const rider = nth(model.riders, number);
      await asStaff('revoke_rider_link', { rider_id: rider.id });
      if (isLinkValid(rider, model)) rider.linkEndsAt = null;
      return undefined;
    },
  );

const wrongCode = (code: string) => String((Number(code) + 1) % 10_000).padStart(4, '0');

/** A press of a rider, by the link that the rider opened last. */
const press = (number: number, riderNumber: number | null, given: PressGiven): Command =>
  onOrder(
    `press:${JSON.stringify({ ...given, rider: riderNumber })}`,
    number,
    ({ delivery }) => delivery !== null && (riderNumber !== null || delivery.rider !== null),
    async (order, model, real) => {
      const delivery = order.delivery as ModelDelivery;
      const rider = riderNumber === null ? (delivery.rider as ModelRider) : nth(model.riders, riderNumber);
      const cash = cashOf(order, given);
      const sent = {
        press_key: randomUUID(),
        delivery_id: delivery.id,
        step: given.step,
        code:
          given.code === 'none' ? null : given.code === 'right' ? delivery.code : wrongCode(delivery.code),
        received_cents: cash,
        is_other_amount: given.cash === 'less, confirmed',
        failure_reason: given.reason,
        seconds_ago: given.ageSeconds,
      };
      const attempt = real.asVisitor<{ press: { outcome: string } }>('rider_press', {
        secret: rider.secret,
        ...sent,
      });
      if (!isLinkValid(rider, model)) {
        await expectOutcome('rider_link_ended', attempt, 'press');
        return;
      }
      const outcome = applyPress(order, rider, given, model);
      expect((await attempt).press.outcome).toBe(outcome);
      seen.add(`press: ${outcome}`);
      rider.presses.push({ order, given: sent, outcome });
    },
  );

/** A press is sent again, by a link that may be a later one, whatever happened since. */
const repeatPress = (riderNumber: number, back: number): Command =>
  command(
    `repeat press of rider ${riderNumber}, ${back} back`,
    (model) => nth(model.riders, riderNumber).presses.length > 0,
    async (model, real) => {
      const rider = nth(model.riders, riderNumber);
      const { order, given, outcome } = nth(rider.presses.toReversed(), back);
      const attempt = real.asVisitor<{ press: { outcome: string; is_repeated?: boolean } }>('rider_press', {
        secret: rider.secret,
        ...given,
      });
      if (!isLinkValid(rider, model)) await expectOutcome('rider_link_ended', attempt, 'repeat');
      else expect((await attempt).press).toMatchObject({ outcome, is_repeated: true });
      return order;
    },
  );

const announceDelays = command(
  'announce',
  () => true,
  async (model, { database }) => {
    // Each sees the queue as it is before: a new time changes no delivery.
    for (const order of model.orders.filter((candidate) => isLateWithoutNews(candidate, model))) {
      const at =
        order.status === 'out_for_delivery'
          ? model.now + (wayMinutes(order.area) ?? 20) * minuteMs
          : (promiseFor(model, order.area) ?? model.now + hourMs);
      order.promisedAgainAt = inFiveMinutes(at);
      order.delays += 1;
      seen.add(`announced ${order.isCash ? 'with cash' : order.status}`);
    }
    await database.query('select private.announce_delays()');
    return undefined;
  },
);

const cancelByCustomer = (number: number): Command =>
  onOrder(
    'cancel',
    number,
    () => true,
    async (order, model, real) => {
      const way = wayToCancel(order);
      const isAnswered = order.status === 'cancelled' || hasRequest(order);
      const isDone = await expectOutcome(
        isAnswered || way !== null ? null : 'cancel_too_late',
        real.asVisitor('cancel_own_order', {
          tracking_number: order.placed.tracking_number,
          access_key: order.placed.access_key,
          expected_payment_status: order.money,
        }),
        'cancel',
      );
      if (!isDone || isAnswered) return;
      if (way === 'by_request') order.request = 'open';
      else cancelOrder(order, 'by_customer', model);
    },
  );

const keepByCustomer = (number: number): Command =>
  onOrder(
    'keep',
    number,
    () => true,
    async (order, _, real) => {
      const isDone = await expectOutcome(
        order.status === 'cancelled' ? 'order_cancelled' : null,
        real.asVisitor('keep_own_order', {
          tracking_number: order.placed.tracking_number,
          access_key: order.placed.access_key,
        }),
        'keep',
      );
      if (isDone && hasRequest(order)) order.request = null;
    },
  );

const answerRequest = (number: number, isGranted: boolean): Command =>
  onOrder(
    isGranted ? 'grant' : 'decline',
    number,
    (order) => order.request !== null,
    async (order, model, real) => {
      const answer = isGranted
        ? real.asStaff('grant_cancel_request', { order_id: order.placed.id, sends_back: false })
        : real.asStaff('decline_cancel_request', { order_id: order.placed.id, reason: 'It is in the van' });
      const isDone = await expectOutcome(hasRequest(order) ? null : 'cancel_answered', answer, 'answer');
      if (!isDone) return;
      if (isGranted) cancelOrder(order, 'by_customer', model);
      else order.request = 'declined';
    },
  );

const cancelByStaff = (number: number): Command =>
  onOrder('stop', number, isOpenOrder, async (order, model, real) => {
    await real.handOver(order.placed, 'cancelled');
    cancelOrder(order, 'by_shop', model);
  });

const rate = (number: number, stars: number): Command =>
  onOrder(
    'rate',
    number,
    (order) => order.delivery !== null,
    async (order, model, real) => {
      const isDone = await expectOutcome(
        mayRate(order, model) ? null : 'rating_closed',
        real.asVisitor('rate_order', {
          order_id: order.placed.id,
          access_key: order.placed.access_key,
          stars,
          words: null,
        }),
        'rate',
      );
      if (isDone) order.rating = { stars, at: order.rating?.at ?? model.now };
    },
  );

// Sequences ---------------------------------------------------------------------------------------------------------------

const small = fc.nat({ max: 8 });
const clockTime = fc
  .nat({ max: 47 })
  .map((half) => `${String(half >> 1).padStart(2, '0')}:${half % 2 ? '30' : '00'}`);
const spans = fc.array(
  fc
    .record({ day: fc.integer({ min: 1, max: 7 }), from: clockTime, to: clockTime })
    .filter(({ from, to }) => from !== to),
  { maxLength: 7 },
);
/** A shop that is open every day, for some hours. */
const everyDay = fc
  .record({ from: clockTime, to: clockTime })
  .filter(({ from, to }) => from !== to)
  .map((span) => [1, 2, 3, 4, 5, 6, 7].map((day) => ({ day, ...span })));
const pressGiven = fc.record<PressGiven>({
  step: fc.constantFrom('picked_up', 'in_transit', 'delivered', 'delivered', 'failed'),
  code: fc.constantFrom('right', 'right', 'wrong', 'none'),
  cash: fc.constantFrom('exact', 'exact', 'less', 'less, confirmed', 'none'),
  reason: fc.constantFrom('no_answer', 'no_answer', 'unknown', null),
  ageSeconds: fc.constantFrom(0, 0, 90, 600, 3600, 2_000_000, -500),
});
const wrongPress: PressGiven = {
  step: 'delivered',
  code: 'wrong',
  cash: 'exact',
  reason: null,
  ageSeconds: 0,
};
const minutes = fc.constantFrom(1, 5, 12, 20, 35, 50, 61, 95, 240, 17 * 60, 26 * 60);
const often = <Kind>(times: number, kind: fc.Arbitrary<Kind>) => Array<fc.Arbitrary<Kind>>(times).fill(kind);
const commands: fc.Arbitrary<Command>[] = [
  ...often(4, small.map(placeOrder)),
  ...often(6, small.map(pay)),
  ...often(2, small.map(agreeCash)),
  ...often(
    2,
    fc.tuple(small, fc.nat({ max: 3 })).map(([order, days]) => agreeDay(order, days)),
  ),
  ...often(
    5,
    fc.tuple(small, small).map(([order, rider]) => assign(order, rider)),
  ),
  small.map((order) => assign(order, null)),
  ...often(
    12,
    fc.tuple(small, pressGiven).map(([order, given]) => press(order, null, given)),
  ),
  ...often(
    2,
    fc.tuple(small, small, pressGiven).map(([order, rider, given]) => press(order, rider, given)),
  ),
  ...often(
    3,
    small.map((order) => press(order, null, wrongPress)),
  ),
  ...often(
    3,
    fc.tuple(small, small).map(([rider, back]) => repeatPress(rider, back)),
  ),
  ...often(3, small.map(openLink)),
  small.map(revokeLink),
  ...often(
    2,
    fc
      .tuple(
        small,
        fc.constantFrom<DeliveryStatus>(
          'pending',
          'assigned',
          'picked_up',
          'in_transit',
          'delivered',
          'failed',
        ),
      )
      .map(([order, status]) => setDelivery(order, status)),
  ),
  small.map(finishWithoutCode),
  ...often(
    8,
    minutes.map((count) => passTime(count * minuteMs)),
  ),
  ...often(4, fc.constant(announceDelays)),
  ...often(3, small.map(cancelByCustomer)),
  small.map(keepByCustomer),
  ...often(
    2,
    fc.tuple(small, fc.boolean()).map(([order, isGranted]) => answerRequest(order, isGranted)),
  ),
  small.map(cancelByStaff),
  ...often(
    2,
    fc.tuple(small, fc.integer({ min: 1, max: 5 })).map(([order, stars]) => rate(order, stars)),
  ),
  fc
    .tuple(spans, fc.array(fc.nat({ max: 4 }), { maxLength: 2 }))
    .map(([hours, off]) => setHours(hours, [...new Set(off)])),
  fc
    .tuple(everyDay, fc.array(fc.nat({ max: 4 }), { maxLength: 1 }))
    .map(([hours, off]) => setHours(hours, off)),
  fc.constant(setHours([], [])),
  fc.constantFrom(10, 45, 300).map(pause),
  fc.constant(resume),
  fc.constantFrom(0, 5, 20).map(setQueue),
  fc.tuple(small, fc.constantFrom(20, 45, 90, 200, 1440, 4320)).map(([area, to]) => setArea(area, to)),
];

const honestPress = (step: Step): PressGiven => ({
  step,
  code: 'right',
  cash: 'exact',
  reason: 'no_answer',
  ageSeconds: 0,
});
/** Each run begins with orders of one and another rider, one of them paid in cash, and one of these situations. */
const beginning: Command[] = [0, 1, 2].flatMap((number) => [
  placeOrder(number === 2 ? 1 : 0),
  number === 1 ? agreeCash(0) : pay(0),
  assign(number, number % 2),
]);
const situations: Command[][] = [
  [],
  // Late, in the shop and on the way.
  [
    passTime(25 * minuteMs),
    press(0, null, honestPress('in_transit')),
    passTime(45 * minuteMs),
    announceDelays,
  ],
  // The customer asked to cancel.
  [cancelByCustomer(0), press(0, null, honestPress('picked_up')), setDelivery(0, 'picked_up')],
  Array<Command>(MOST_WRONG_CODES + 1).fill(press(0, null, wrongPress)),
  // What the rider forgets at the door.
  [
    press(1, null, { ...honestPress('delivered'), cash: 'none' }),
    press(1, null, { ...honestPress('delivered'), cash: 'less' }),
    press(1, null, { ...honestPress('delivered'), code: 'none' }),
    press(1, null, { ...honestPress('failed'), reason: null }),
  ],
  // The rider's phone finds the order in other hands, or called off.
  [
    press(0, null, honestPress('picked_up')),
    assign(0, 2),
    press(0, 0, honestPress('delivered')),
    cancelByStaff(0),
    press(0, 2, honestPress('delivered')),
    passTime(61 * minuteMs),
  ],
];

/** What the sequences have to reach, whatever the seed. */
const reached = [
  ...'place pay cash assign link revoke repeat announce cancel keep grant decline stop rate finish pause resume'.split(
    ' ',
  ),
  ...'done already not_yours cancelled asked_to_cancel wrong_code code_locked code_missing cash_missing cash_differs reason_missing rider_link_ended'
    .split(' ')
    .map((outcome) => `press: ${outcome}`),
  'announced processing',
  'announced out_for_delivery',
  'announced with cash',
  'place: orders_paused',
  'cancel: cancel_too_late',
  'keep: order_cancelled',
  'rate: rating_closed',
  'set: cancel_requested',
];
const MOST_ROUNDS = 6;

describe.each(testDatabases())('on %s', { timeout: 600_000 }, (kind) => {
  const shop = setUpShop(kind);
  const { database, asStaff } = shop;
  /** Of other customers. */
  const others = 30;
  let real: Real;
  let product: string;
  let areas: ModelArea[];
  let now = Date.parse('2027-03-01T05:00:00Z');
  let runs = 0;

  beforeAll(async () => {
    product = await makeProduct(database, 100_000, PRICE);
    const setClock = await simulateClock(database);
    real = { ...shop, setClock };
    await setClock(now);
    for (let n = 0; n < others; n += 1)
      await shop.pay(await shop.place(product, { customer_phone: newPhone() }));
    const add = (name: string, from: number, to: number, needsAgreement: boolean) =>
      shop.readValue(
        `insert into public.delivery_areas (name, promise_from_minutes, promise_to_minutes, needs_agreement) values ($1, $2, $3, $4) returning id`,
        [name, from, to, needsAgreement],
      );
    areas = [
      { id: null, from: 15, to: 60, needsAgreement: false },
      { id: (await add('Near', 15, 45, false)) ?? '', from: 15, to: 45, needsAgreement: false },
      { id: (await add('Far', 480, 1440, false)) ?? '', from: 480, to: 1440, needsAgreement: false },
      { id: (await add('By agreement', 15, 45, true)) ?? '', from: 15, to: 45, needsAgreement: true },
    ];
  });

  /** A shop that is always open, with three riders whose links are valid, and deliveries of others that wait. */
  async function newModel(waiting: number): Promise<Model> {
    runs += 1;
    await real.setClock(now);
    await database.execute('alter table public.deliveries disable trigger user');
    await database.query(
      `update public.deliveries as d set delivery_status = case when counted.nth <= $1 then 'pending' else 'delivered' end
       from (select id, row_number() over (order by created_at, id) as nth from public.deliveries) as counted where counted.id = d.id`,
      [waiting],
    );
    await database.execute('alter table public.deliveries enable trigger user');
    await database.execute(`
      update public.store_settings set opening_hours = '[]', days_off = '[]', orders_pause_reason = null, orders_paused_until = null,
        queue_minutes = 5 where id;
      update public.orders set promised_again_at = coalesce(promised_again_at, now()) where true;
    `);
    const model: Model = {
      now,
      hours: [],
      daysOff: [],
      pausedUntil: null,
      queueMinutes: 5,
      waiting,
      areas: areas.map((area) => ({ ...area })),
      riders: [],
      orders: [],
      product,
    };
    for (const area of model.areas.filter(({ id }) => id !== null))
      await database.query(
        'update public.delivery_areas set promise_from_minutes = $2, promise_to_minutes = $3 where id = $1',
        [area.id, area.from, area.to],
      );
    for (const name of ['Brian', 'Kamau', 'Otieno']) {
      const saved = await asStaff<{ id: string; phone: string; name: string }>('save_rider', {
        name: `${name} ${runs}`,
        phone: newPhone(),
        vehicle: 'Motorbike',
      });
      const { secret } = await asStaff<{ secret: string }>('open_rider_link', { rider_id: saved.id });
      model.riders.push({ ...saved, secret, linkEndsAt: now + SHIFT_MS, presses: [] });
    }
    return model;
  }

  test('orders, deliveries and promises follow the model in any sequence of acts, and each person sees what the model says', async () => {
    const numRuns = Math.ceil((isExhaustive ? 60 : 12) * LENGTH);
    for (let round = 0; round < MOST_ROUNDS; round += 1) {
      await fc.assert(
        fc.asyncProperty(
          fc.nat({ max: others }),
          fc.commands(commands, { maxCommands: 90, size: 'max' }),
          async (waiting, chosen) => {
            const model = await newModel(waiting);
            await fc.asyncModelRun(async () => {
              for (const first of [...beginning, ...(situations[runs % situations.length] as Command[])])
                if (first.check(model)) await first.run(model, real);
              return { model, real };
            }, chosen);
            // The clock of the next run goes on: rows of this one stay in the past.
            now = model.now + 3 * dayMs;
          },
        ),
        { seed: SEED + round * 1_000_003, numRuns, unbiased: true },
      );
      if (reached.every((act) => seen.has(act))) break;
    }
    expect(
      reached.filter((act) => !seen.has(act)),
      `never happened in ${MOST_ROUNDS} rounds`,
    ).toEqual([]);
  });
});
