// Model-based tests: orders, payments, deliveries and stock follow a simple model under random actions of people and M-PESA.
import { randomInt } from 'node:crypto';
import { type Claims, testDatabases } from '@jani-juice/backend/testing';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isExhaustive } from '../../../scripts/tests/test-depth.ts';
import { expectBalancedBooks } from '../payments/books/balanced-books.ts';
import { expectExplainedDays } from '../payments/books/explained-days.ts';
import { makeProduct, people, refusalOf, secondStepPassed } from '../shop-database.ts';
import { newCheckoutRequestId, newPhone, setUpShop } from '../steps.ts';

const PRICE = 95_000;
const FEE = 100;
/** The discount code of a run. */
const CODE = { percent: 15, minimum: 2 * PRICE, mostUses: 2 };
/** The database allows ten prompts for an order in ten minutes. */
const MOST_ATTEMPTS = 9;
const SEED = Number(process.env.MODEL_SEED ?? 6);
/** Multiplies the number of sequences. */
const LENGTH = Number(process.env.MODEL_LENGTH ?? 1);

interface ModelPayment {
  id: string;
  isCash: boolean;
  checkoutRequestId: string;
  receipt: string;
  status: 'initiating' | 'processing' | 'completed' | 'failed' | 'review';
  needsRefund: boolean;
  /** A message contained its receipt; the answer to a query has none. */
  hasReceipt: boolean;
  /** The first amount that M-PESA's books have for its receipt, before a message proved that it pays. Null: none. */
  reportedCents: number | null;
  /** Why it came into review, the first time. */
  reviewCause: 'wrong_amount' | 'contradiction' | null;
  refunds: ModelRefund[];
}
interface ModelRefund {
  id: string;
  /** M-PESA's receipt of the reversal. */
  receipt: string;
  requestedBy: StaffMember;
  status: 'requested' | 'approved' | 'sending' | 'sent' | 'completed' | 'failed' | 'unknown' | 'withdrawn';
  tries: number;
  /** M-PESA has accepted the request. */
  isAccepted: boolean;
  /** M-PESA answered that the payment was already reversed, or reported a reversal of another amount. */
  wasReportedReversed: boolean;
  /** The receipt of the reversal is recorded. */
  isReceiptKnown: boolean;
  wasSentTwice: boolean;
}
type StaffMember = 'one' | 'other';
interface ModelOrder {
  id: string;
  trackingNumber: string;
  accessKey: string;
  /** One per product, in order of their ids, as the database checks them. */
  lines: ModelLine[];
  /** It has the run's discount code. */
  hasCode: boolean;
  status: string;
  money: 'unpaid' | 'paid' | 'needs_review' | 'refunded';
  /** Cash at the door is agreed, or paid it. */
  paysCash: boolean;
  /** Networks of the visitor who placed it; orders of the shop itself, and those that staff have begun to prepare, have none. */
  networks: string[];
  /** It reserves units while it is unpaid. */
  isReserved: boolean;
  /** Its time for payment is over. */
  isOver: boolean;
  /** Its reservation has expired. */
  isHoldOver: boolean;
  /** Even an open prompt no longer delays its expiry. */
  isLimitOver: boolean;
  isExtended: boolean;
  /** Its paid units were returned to stock. */
  isReturned: boolean;
  delivery: string | null;
  /** Its rider had it once. */
  wasPacked: boolean;
  /** Cancelled by its customer, or as the customer asked. */
  isCancelledByCustomer: boolean;
  /** Its customer asked to cancel it: not answered, or declined. */
  request: 'open' | 'declined' | null;
  payments: ModelPayment[];
}
interface ModelProduct {
  id: string;
  stock: number;
}
interface ModelLine {
  product: ModelProduct;
  quantity: number;
}
interface Model {
  products: ModelProduct[];
  orders: ModelOrder[];
  /** A discount code that no other run uses. */
  code: string;
  /** A /24 that no other run uses, without the last part of the address. */
  network: string;
}
type Real = ReturnType<typeof setUpShop>;
type Command = fc.AsyncCommand<Model, Real>;

let receiptCount = 0;
/** A /24 for one run, so that no other run's orders count in it. */
const randomNetwork = () => `10.${randomInt(256)}.${randomInt(256)}.`;
/** A receipt that no other payment of the run has. */
function nextReceipt(): string {
  receiptCount += 1;
  return `UKL${receiptCount.toString(36).toUpperCase().padStart(7, '0')}`;
}
const chargeOfLines = (lines: readonly ModelLine[]) =>
  lines.reduce((sum, { quantity }) => sum + quantity * PRICE, FEE);
const priceOf = (lines: readonly ModelLine[]) => chargeOfLines(lines) - FEE;
/** Rounded up to whole shillings. */
const discountOf = (lines: readonly ModelLine[]) => Math.ceil((priceOf(lines) * CODE.percent) / 10_000) * 100;
const chargeOf = ({ lines, hasCode }: Pick<ModelOrder, 'lines' | 'hasCode'>) =>
  chargeOfLines(lines) - (hasCode ? discountOf(lines) : 0);
const REFUND_LIMIT = 100_000;
/** Whether M-PESA may be processing the refund. */
const isAtMpesa = ({ status }: ModelRefund) => ['sending', 'sent', 'unknown'].includes(status);
const isLive = ({ status }: ModelRefund) => status !== 'failed' && status !== 'withdrawn';
const isRefunded = ({ refunds }: ModelPayment) => refunds.some(({ status }) => status === 'completed');
/** Whether the payment of the order is being refunded, which blocks its delivery. */
const isHeld = (order: ModelOrder) =>
  order.payments.some(
    (payment) =>
      payment.status === 'completed' &&
      !payment.needsRefund &&
      payment.refunds.some((refund) => isLive(refund) && refund.status !== 'completed'),
  );
const isOpen = ({ status }: ModelPayment) => status === 'initiating' || status === 'processing';
const hasLeftShop = (order: ModelOrder) => !['pending', 'processing'].includes(order.status);

// The model ---------------------------------------------------------------------------------------------------------------

/** Units of a product that unpaid orders reserve. */
const heldUnits = ({ orders }: Model, product: ModelProduct) =>
  orders
    .filter((order) => order.isReserved && order.money === 'unpaid')
    .filter(({ status }) => status === 'pending' || status === 'cancelled')
    .flatMap(({ lines }) => lines)
    .filter((line) => line.product === product)
    .reduce((sum, { quantity }) => sum + quantity, 0);

/** The error code for the first line that the stock does not suffice for, or null. */
function missingUnits(lines: readonly ModelLine[]): string | null {
  const missing = lines.find(({ product, quantity }) => product.stock < quantity);
  if (!missing) return null;
  return missing.product.stock === 0 ? 'out_of_stock' : 'not_enough_stock';
}
function takeUnits({ lines }: ModelOrder): void {
  for (const { product, quantity } of lines) product.stock -= quantity;
}
function returnUnits({ lines }: ModelOrder): void {
  for (const { product, quantity } of lines) product.stock += quantity;
}

/** Whether a new order may reserve its units immediately. Time limits of networks may forbid it (unpaid-orders.test.ts). */
const mayHoldFromPlacing = (model: Model, networks: string[], lines: readonly ModelLine[]) =>
  networks.length === 0 ||
  lines.every(({ product, quantity }) => {
    const held = heldUnits(model, product);
    return held + quantity <= Math.ceil((product.stock + held) / 2);
  });

/** Checks stock and time before a prompt. Returns the error code, or null if the prompt is sent. */
function prepareForPrompt(order: ModelOrder): string | null {
  if (order.status !== 'pending' || order.paysCash) return null;
  if (order.isOver && order.isExtended) return 'order_cancelled';
  if (order.isOver && order.isLimitOver) return 'order_cancelled';
  const missing = order.isReserved ? null : missingUnits(order.lines);
  if (missing !== null) return missing;
  if (order.isOver) {
    order.isExtended = true;
    order.isOver = false;
    order.isHoldOver = false;
  }
  return null;
}

/** Units are reserved at a prompt, unless the networks of the order have held units for too long. */
async function reserveForPrompt(order: ModelOrder, { readValue }: Real): Promise<void> {
  if (order.isReserved || order.status !== 'pending' || order.paysCash) return;
  const isHeld = await readValue<boolean>(
    'select reserved_until is not null from public.orders where id = $1',
    [order.id],
  );
  if (!isHeld) {
    expect(order.networks).not.toEqual([]);
    return;
  }
  takeUnits(order);
  order.isReserved = true;
  order.isHoldOver = false;
}

/** Records a received payment: the first one pays the order, later ones are refunded. */
function recordPayment(order: ModelOrder, payment: ModelPayment): void {
  payment.status = 'completed';
  payment.needsRefund = order.money !== 'unpaid';
  if (order.money !== 'unpaid') return;
  order.paysCash = false;
  if (order.isCancelledByCustomer) {
    // Staff decide about it.
    order.money = 'needs_review';
    order.delivery = null;
    order.wasPacked = false;
    return;
  }
  sell(order);
}

function sell(order: ModelOrder): void {
  const before = order.status;
  if (!order.isReserved) {
    if (missingUnits(order.lines) !== null) {
      order.money = 'needs_review';
      return;
    }
    takeUnits(order);
  }
  order.money = 'paid';
  order.isReserved = false;
  order.isCancelledByCustomer = false;
  if (order.status === 'cancelled') order.request = null;
  if (order.status === 'pending' || order.status === 'cancelled') order.status = 'processing';
  if (order.delivery === null) order.delivery = deliveryStatusFor(order, 'pending');
  updateDelivery(order, before);
}

/** The delivery status that follows from an order status, for a delivery without a rider. */
function deliveryStatusFor({ status, money }: ModelOrder, delivery: string): string {
  const isOnItsWay = delivery === 'picked_up' || delivery === 'in_transit';
  if (isCalledOff(status, money)) return delivery === 'delivered' ? 'delivered' : 'failed';
  if (status === 'delivered') return 'delivered';
  if (customerStatus(status) === 'out_for_delivery') return isOnItsWay ? delivery : 'pending';
  return isOnItsWay || delivery === 'delivered' ? 'pending' : delivery;
}

const isCalledOff = (status: string, money: ModelOrder['money']) =>
  status === 'cancelled' || (money === 'refunded' && status !== 'delivered');

/** Updates the delivery after a status change of its order. */
function updateDelivery(order: ModelOrder, before: string): void {
  if (order.delivery === null) return;
  const isReopened = before === 'cancelled' && order.delivery === 'failed';
  order.delivery = deliveryStatusFor(order, isReopened ? 'pending' : order.delivery);
  notePacked(order);
}

/** A delivery that its rider had is packed, also after it came back. */
function notePacked(order: ModelOrder): void {
  order.wasPacked ||= movesOrderTo(order.delivery) !== null;
}

const hasOpenRequest = (order: ModelOrder) =>
  order.request === 'open' &&
  order.money === 'paid' &&
  order.status !== 'delivered' &&
  order.status !== 'cancelled';

/** How its customer can cancel an order; null: only staff can. */
function wayToCancel(order: ModelOrder): 'at_once' | 'by_request' | null {
  if (order.money === 'unpaid' && !order.paysCash) return order.status === 'pending' ? 'at_once' : null;
  const isUntouched = !hasLeftShop(order) && !order.wasPacked && order.delivery !== 'failed';
  if (order.request !== null || !isUntouched) return null;
  if (order.money === 'unpaid') return 'at_once';
  return order.money === 'paid' ? 'by_request' : null;
}

function expire(order: ModelOrder): void {
  const isPending = order.status === 'pending';
  if (order.money !== 'unpaid' || !(isPending || order.status === 'cancelled')) return;
  if (order.paysCash && isPending) return;
  if (order.payments.some(({ status }) => status === 'review')) return;
  // An open prompt delays the end of the order, not that of its reservation.
  const isPrompted = order.payments.some(isOpen) && !order.isLimitOver;
  const isOver = !isPrompted && (isPending ? order.isOver : order.isReserved);
  if (isOver || order.isHoldOver) {
    if (order.isReserved) returnUnits(order);
    order.isReserved = false;
  }
  if (isOver) order.status = 'cancelled';
}
/** Completes a refund and updates its order. */
function completeRefund(order: ModelOrder, payment: ModelPayment, refund: ModelRefund): void {
  const isFirst = !isRefunded(payment);
  const before = order.status;
  refund.status = 'completed';
  if (!isFirst || payment.needsRefund || !['paid', 'needs_review'].includes(order.money)) return;
  // The order was reopened after M-PESA had reported a failure, and the reversal succeeded late.
  if (order.money === 'paid' && !hasLeftShop(order)) {
    returnUnits(order);
    order.isReturned = true;
    order.status = 'cancelled';
    order.isCancelledByCustomer = false;
  }
  if (order.money === 'needs_review') {
    order.status = 'cancelled';
    order.isReturned = true;
    order.isCancelledByCustomer = false;
  }
  order.money = 'refunded';
  updateDelivery(order, before);
}

/** Applies M-PESA's report of a completed reversal. */
function applyReversal(
  order: ModelOrder,
  payment: ModelPayment,
  refund: ModelRefund,
  isNamed: boolean,
): void {
  if (refund.status === 'completed') {
    refund.isReceiptKnown ||= isNamed;
    return;
  }
  if (refund.tries === 0) return;
  const others = payment.refunds.filter((other) => other !== refund);
  for (const other of others) {
    if (other.status === 'requested' || other.status === 'approved') other.status = 'withdrawn';
  }
  if (others.some(({ status, isReceiptKnown }) => status === 'completed' && isReceiptKnown && isNamed)) {
    refund.wasSentTwice = true;
    refund.isReceiptKnown ||= isNamed;
  } else if (!others.some(isLive)) {
    refund.isReceiptKnown ||= isNamed;
    completeRefund(order, payment, refund);
  }
}

/** The error code for handing an order over: refunded, or unpaid without consent. */
function handoverRefusal(order: ModelOrder, status: string, isConsented: boolean): string | null {
  const leaves = ['out_for_delivery', 'delivered'].includes(customerStatus(status));
  if (!leaves || customerStatus(status) === customerStatus(order.status) || order.money === 'paid')
    return null;
  if (order.money === 'refunded') return 'order_refunded';
  return isConsented || (order.money === 'unpaid' && order.paysCash) ? null : 'order_unpaid';
}

/** Returns the error code, or null if the shop accepts the change. */
function applyStatus(order: ModelOrder, status: string, isConsented = false): string | null {
  if (status === order.status) return null;
  const isHandedOn = ['processing', 'shipped', 'out_for_delivery', 'delivered'].includes(status);
  if (
    isHeld(order) &&
    ((order.money === 'paid' && order.status === 'cancelled') ||
      (order.money === 'needs_review' && isHandedOn))
  ) {
    return 'refund_under_way';
  }
  if (hasOpenRequest(order) && status !== 'cancelled') return 'cancel_requested';
  const handover = handoverRefusal(order, status, isConsented);
  if (handover) return handover;
  const isSold = order.money === 'paid' || order.money === 'refunded';
  if (status === 'cancelled' && order.status !== 'cancelled') {
    if (isSold && !order.isReturned && !hasLeftShop(order)) {
      returnUnits(order);
      order.isReturned = true;
    }
  } else if (status !== 'cancelled') {
    const takesUnits = isSold
      ? order.status === 'cancelled' && order.isReturned
      : order.money === 'unpaid' && !order.isReserved;
    if (takesUnits) {
      if (missingUnits(order.lines) !== null) return 'units_sold';
      takeUnits(order);
      if (isSold) order.isReturned = false;
      else {
        order.isReserved = true;
        order.isOver = false;
        order.isHoldOver = false;
        order.isLimitOver = false;
        order.isExtended = false;
      }
    }
  }
  const before = order.status;
  order.status = status;
  if (status !== 'cancelled') order.isCancelledByCustomer = false;
  if (before === 'cancelled') order.request = null;
  // An order that staff have begun to prepare is not limited any more.
  if (!['pending', 'cancelled'].includes(status)) order.networks = [];
  updateDelivery(order, before);
  return null;
}

const movesOrderTo = (delivery: string | null) =>
  delivery === 'delivered'
    ? 'delivered'
    : delivery === 'picked_up' || delivery === 'in_transit'
      ? 'out_for_delivery'
      : null;
const customerStatus = (status: string) => (status === 'shipped' ? 'out_for_delivery' : status);

/** Returns the error code, or null if the shop accepts the change. */
function applyDelivery(order: ModelOrder, delivery: string): string | null {
  if (delivery === order.delivery) return null;
  if (isCalledOff(order.status, order.money) && delivery !== 'failed') {
    return order.money === 'refunded' ? 'order_refunded' : 'delivery_of_cancelled_order';
  }
  const [had, wanted] = [movesOrderTo(order.delivery), movesOrderTo(delivery)];
  if (hasOpenRequest(order) && wanted !== null && had === null) return 'cancel_requested';
  const handover = wanted && order.status !== 'cancelled' && handoverRefusal(order, wanted, false);
  if (handover) return handover;
  const shown = customerStatus(order.status);
  if (wanted !== null) {
    order.delivery = delivery;
    notePacked(order);
    if (shown !== wanted) order.status = wanted;
    return null;
  }
  // An order that was shipped waits for a rider until its delivery fails.
  const isWaiting = had === null && shown === 'out_for_delivery';
  order.delivery = isWaiting && delivery !== 'failed' ? 'pending' : delivery;
  const fails = isWaiting && delivery === 'failed';
  if ((fails || (had !== null && shown === had)) && order.money !== 'refunded') order.status = 'processing';
  return null;
}

// Comparison of model and database ----------------------------------------------------------------------------------------

/** Statuses that refunds have had in any run. */
const seenRefunds = new Set<string>();

async function expectSame(model: Model, { database }: Real): Promise<void> {
  for (const refund of everyRefund(model)) seenRefunds.add(refund.status);
  const { rows } = await database.query<{ state: unknown }>(
    `select jsonb_build_object(
       'stock', (select jsonb_agg(p.stock_quantity order by wanted.place) from unnest($1::uuid[]) with ordinality as wanted (id, place)
                 join public.products as p on p.id = wanted.id),
       'orders', coalesce((select jsonb_agg(jsonb_build_object(
           'status', o.status, 'money', o.payment_status, 'isReserved', o.reserved_until is not null,
           'isReturned', o.units_returned_at is not null, 'isByCustomer', o.status = 'cancelled' and o.cancel_reason = 'by_customer',
           'hasRequest', private.has_cancel_request(o), 'wayToCancel', private.way_to_cancel(o), 'total', o.total_amount, 'hasCode', o.discount_code is not null,
           'delivery', (select d.delivery_status from public.deliveries as d where d.order_id = o.id),
           'payments', coalesce((select jsonb_agg(jsonb_build_array(
                                   p.status, p.needs_refund, p.receipt is not null, p.refunded_at is not null,
                                   coalesce((select jsonb_agg(jsonb_build_array(r.status, r.tries, r.sent_twice_at is not null)
                                             order by r.created_at, r.id)
                                             from public.refunds as r where r.payment_id = p.id), '[]')
                                 ) order by p.created_at, p.id)
                                 from public.payments as p where p.order_id = o.id), '[]')
         ) order by wanted.place) from unnest($2::uuid[]) with ordinality as wanted (id, place)
         join public.orders as o on o.id = wanted.id), '[]')
     ) as state`,
    [`{${model.products.map(({ id }) => id).join(',')}}`, `{${model.orders.map(({ id }) => id).join(',')}}`],
  );
  expect(rows[0]?.state).toEqual({
    stock: model.products.map(({ stock }) => stock),
    orders: model.orders.map((order) => ({
      status: order.status,
      money: order.money,
      isReserved: order.isReserved,
      isReturned: order.isReturned,
      isByCustomer: order.isCancelledByCustomer,
      hasRequest: hasOpenRequest(order),
      wayToCancel: wayToCancel(order),
      total: chargeOf(order),
      hasCode: order.hasCode,
      delivery: order.delivery,
      payments: order.payments.map((payment) => [
        payment.status,
        payment.needsRefund,
        payment.hasReceipt,
        isRefunded(payment),
        payment.refunds.map((refund) => [refund.status, refund.tries, refund.wasSentTwice]),
      ]),
    })),
  });
}

// Actions of people and M-PESA ----------------------------------------------------------------------------------------------

/** Drinks that a customer chooses: the number of a product, and units of it. */
type Choice = readonly (readonly [productNumber: number, quantity: number])[];

/** The chosen drinks as the shop keeps them: the same product once. */
function linesOf({ products }: Readonly<Model>, choice: Choice): ModelLine[] {
  const lines = new Map<ModelProduct, number>();
  for (const [number, quantity] of choice) {
    const product = products[number % products.length] as ModelProduct;
    lines.set(product, (lines.get(product) ?? 0) + quantity);
  }
  return [...lines]
    .map(([product, quantity]) => ({ product, quantity }))
    .sort((one, other) => (one.product.id < other.product.id ? -1 : 1));
}
const itemsOf = (lines: readonly ModelLine[]) =>
  lines.map(({ product, quantity }) => ({ product_id: product.id, quantity }));
const describeChoice = (choice: Choice) =>
  choice.map(([product, quantity]) => `${quantity} of product ${product}`).join(' and ');

/** Why an order cannot have the discount code, or null. */
function codeRefusal({ orders }: Readonly<Model>, lines: readonly ModelLine[]): string | null {
  const used = orders.filter(
    ({ hasCode, status, money }) => hasCode && !(status === 'cancelled' && money === 'unpaid'),
  );
  if (used.length >= CODE.mostUses) return 'discount_invalid';
  return missingUnits(lines) ?? (priceOf(lines) < CODE.minimum ? 'discount_minimum' : null);
}

/** @param host last part of the visitor's IP address in the run's network; null for an order of the shop itself */
function placeOrder(choice: Choice, host: number | null = null, hasCode = false): Command {
  return {
    check: () => true,
    async run(model, real) {
      const lines = linesOf(model, choice);
      const address = host === null ? undefined : `${model.network}${host}`;
      const networks = address === undefined ? [] : [address, `${model.network}0/24`];
      const attempt = real.placeItems(itemsOf(lines), chargeOf({ lines, hasCode }), {
        address,
        customer_phone: newPhone(),
        ...(hasCode ? { discount_code: model.code } : {}),
      });
      const refusal = hasCode ? codeRefusal(model, lines) : missingUnits(lines);
      if (refusal !== null) {
        expect(await refusalOf(attempt)).toBe(refusal);
      } else {
        const { id, tracking_number: trackingNumber, access_key: accessKey, reserved_until } = await attempt;
        const isReserved = reserved_until !== null;
        const mayReserve = mayHoldFromPlacing(model, networks, lines);
        expect(isReserved).toBe(networks.length === 0 || (mayReserve && isReserved));
        const order: ModelOrder = {
          id,
          trackingNumber,
          accessKey,
          lines,
          hasCode,
          status: 'pending',
          money: 'unpaid',
          paysCash: false,
          networks,
          isReserved,
          isOver: false,
          isHoldOver: false,
          isLimitOver: false,
          isExtended: false,
          isReturned: false,
          delivery: null,
          wasPacked: false,
          isCancelledByCustomer: false,
          request: null,
          payments: [],
        };
        if (isReserved) takeUnits(order);
        model.orders.push(order);
      }
      await expectSame(model, real);
    },
    toString: () =>
      `place an order of ${describeChoice(choice)}${hasCode ? ' with the code' : ''} from ${host ?? 'the shop itself'}`,
  };
}

/** A command on an existing order. */
function orderCommand(
  title: string,
  number: number,
  work: (order: ModelOrder, real: Real, model: Model) => Promise<void>,
  check: (order: ModelOrder) => boolean = () => true,
): Command {
  const chosen = (model: Readonly<Model>) => model.orders[number % model.orders.length];
  return {
    check(model) {
      const order = chosen(model);
      return order !== undefined && check(order);
    },
    async run(model, real) {
      await work(chosen(model) as ModelOrder, real, model);
      await expectSame(model, real);
    },
    toString: () => `${title} (order ${number})`,
  };
}

/** A command on one of the newest attempts of an order. */
function paymentCommand(
  title: string,
  number: number,
  back: number,
  work: (order: ModelOrder, payment: ModelPayment, real: Real) => Promise<void>,
): Command {
  const chosen = (order: ModelOrder) => {
    const attempts = order.payments.filter(({ isCash }) => !isCash);
    return attempts.at(-1 - (back % Math.max(attempts.length, 1)));
  };
  return orderCommand(
    `${title} (attempt ${back} from the end)`,
    number,
    async (order, real) => work(order, chosen(order) as ModelPayment, real),
    (order) => chosen(order) !== undefined,
  );
}

const changeDrinks = (number: number, choice: Choice) =>
  orderCommand(`change the drinks to ${describeChoice(choice)}`, number, async (order, real, model) => {
    const lines = linesOf(model, choice);
    // Below its minimum, the order loses the code.
    const hasCode = order.hasCode && priceOf(lines) >= CODE.minimum;
    const attempt = real.changeItems(
      { id: order.id, access_key: order.accessKey },
      itemsOf(lines),
      chargeOf({ lines, hasCode }),
    );
    if (order.money !== 'unpaid') return expect(await refusalOf(attempt)).toBe('order_already_paid');
    if (order.status === 'cancelled' || order.isOver)
      return expect(await refusalOf(attempt)).toBe('order_cancelled');
    if (order.status !== 'pending') return expect(await refusalOf(attempt)).toBe('order_in_work');
    if (order.payments.length > 0) return expect(await refusalOf(attempt)).toBe('payment_begun');
    const wasReserved = order.isReserved;
    if (wasReserved) returnUnits(order);
    order.isReserved = false;
    const missing = missingUnits(lines);
    if (missing !== null) {
      expect(await refusalOf(attempt)).toBe(missing);
      if (wasReserved) takeUnits(order);
      order.isReserved = wasReserved;
      return;
    }
    const { reserved_until } = await attempt;
    const mayReserve = mayHoldFromPlacing(model, order.networks, lines);
    order.isReserved = reserved_until !== null;
    expect(order.isReserved).toBe(order.networks.length === 0 || (mayReserve && order.isReserved));
    order.isHoldOver = false;
    order.lines = lines;
    order.hasCode = hasCode;
    if (order.isReserved) takeUnits(order);
  });

/** @param isPaid what the customer saw: whether the order is paid */
const cancelByCustomer = (number: number, isPaid: boolean) =>
  orderCommand(
    `the customer cancels an order that was ${isPaid ? 'paid' : 'unpaid'}`,
    number,
    async (order, { asVisitor }) => {
      const refusal = await refusalOf(
        asVisitor('cancel_own_order', {
          tracking_number: order.trackingNumber,
          access_key: order.accessKey,
          expected_payment_status: isPaid ? 'paid' : 'unpaid',
        }),
      );
      if (order.money !== (isPaid ? 'paid' : 'unpaid')) return expect(refusal).toBe('payment_arrived');
      if (order.status === 'cancelled' || hasOpenRequest(order)) return expect(refusal).toBeNull();
      const way = wayToCancel(order);
      expect(refusal).toBe(way === null ? 'cancel_too_late' : null);
      if (way === 'by_request') order.request = 'open';
      if (way !== 'at_once') return;
      if (order.isReserved) returnUnits(order);
      order.isReserved = false;
      const before = order.status;
      order.status = 'cancelled';
      order.isCancelledByCustomer = true;
      updateDelivery(order, before);
    },
  );

const keepByCustomer = (number: number) =>
  orderCommand('the customer keeps the order', number, async (order, { asVisitor }) => {
    const refusal = await refusalOf(
      asVisitor('keep_own_order', { tracking_number: order.trackingNumber, access_key: order.accessKey }),
    );
    const isCancelled = order.status === 'cancelled';
    expect(refusal).toBe(isCancelled ? 'order_cancelled' : null);
    if (hasOpenRequest(order)) order.request = null;
  });

const declineRequest = (number: number) =>
  orderCommand('staff decline to cancel', number, async (order, { asStaff }) => {
    const refusal = await refusalOf(
      asStaff('decline_cancel_request', { order_id: order.id, reason: 'It is at your door' }),
    );
    expect(refusal).toBe(hasOpenRequest(order) ? null : 'cancel_answered');
    if (hasOpenRequest(order)) order.request = 'declined';
  });

const grantRequest = (number: number) =>
  orderCommand(
    'staff cancel and refund as the customer asked',
    number,
    async (order, { asStaff, readRows }) => {
      const attempt = asStaff<string>('grant_cancel_request', { order_id: order.id });
      if (!hasOpenRequest(order)) return expect(await refusalOf(attempt)).toBe('cancel_answered');
      expect(applyStatus(order, 'cancelled')).toBeNull();
      order.isCancelledByCustomer = true;
      const due = order.payments.filter(
        (payment) => payment.status === 'completed' && !payment.needsRefund && !isRefunded(payment),
      );
      const sent = due.filter(
        (payment) =>
          payment.hasReceipt &&
          !payment.refunds.some(isLive) &&
          (payment.reportedCents === null || payment.reportedCents >= chargeOf(order)),
      );
      const needsApproval = chargeOf(order) > REFUND_LIMIT;
      expect(await attempt).toBe(
        sent.length < due.length ? 'left' : needsApproval ? 'needs_approval' : 'sent',
      );
      for (const payment of sent) {
        const [refund] = await readRows<{ id: string }>(
          'select id from public.refunds where payment_id = $1 order by created_at desc, id desc limit 1',
          [payment.id],
        );
        payment.refunds.push({
          id: refund?.id ?? '',
          receipt: nextReceipt(),
          requestedBy: 'one',
          status: needsApproval ? 'requested' : 'approved',
          tries: 0,
          isAccepted: false,
          wasReportedReversed: false,
          isReceiptKnown: false,
          wasSentTwice: false,
        });
      }
    },
  );

const beginPayment = (number: number) =>
  orderCommand(
    'begin a payment',
    number,
    async (order, real) => {
      const attempt = real.begin({ id: order.id, tracking_number: order.trackingNumber });
      const known = order.payments.filter((payment) => payment.status !== 'failed');
      if (known.length > 0) {
        expect(await attempt).toMatchObject({ is_new: false });
      } else if (order.money !== 'unpaid') {
        expect(await refusalOf(attempt)).toBe('order_already_paid');
      } else if (order.status === 'cancelled') {
        expect(await refusalOf(attempt)).toBe('order_cancelled');
      } else {
        const refusal = prepareForPrompt(order);
        if (refusal !== null) {
          expect(await refusalOf(attempt)).toBe(refusal);
          return;
        }
        const begun = await attempt;
        expect(begun.is_new).toBe(true);
        await reserveForPrompt(order, real);
        order.payments.push({
          isCash: false,
          id: begun.payment.id,
          checkoutRequestId: newCheckoutRequestId(),
          receipt: nextReceipt(),
          status: 'initiating',
          needsRefund: false,
          hasReceipt: false,
          reportedCents: null,
          reviewCause: null,
          refunds: [],
        });
      }
    },
    (order) => order.payments.length < MOST_ATTEMPTS,
  );

const answerPush = (number: number, back: number, answer: 'accepted' | 'refused' | 'lost') =>
  paymentCommand(`the push is ${answer}`, number, back, async (_, payment, { recordPush }) => {
    await recordPush(payment, {
      ...(answer === 'accepted' ? { checkout_request_id: payment.checkoutRequestId } : {}),
      ...(answer === 'refused' ? { refusal_code: '500.001.1001', refusal_description: 'busy' } : {}),
    });
    if (payment.status === 'initiating') payment.status = answer === 'refused' ? 'failed' : 'processing';
  });

/** Why an order cannot be paid in cash, or null. */
function cashRefusal(order: ModelOrder): string | null {
  if (order.money === 'needs_review') return 'decide_order';
  if (order.money !== 'unpaid') return 'order_already_paid';
  if (order.status === 'cancelled' || (order.status === 'pending' && order.isOver && !order.paysCash))
    return 'order_cancelled';
  return order.payments.some((payment) => isOpen(payment) || payment.status === 'review')
    ? 'payment_open'
    : null;
}

const agreeCash = (number: number) =>
  orderCommand('staff agree on cash at the door', number, async (order, { asStaff }) => {
    const refusal = await refusalOf(asStaff('agree_cash', { order_id: order.id }));
    const expected =
      cashRefusal(order) ??
      (order.paysCash || order.status !== 'pending' ? null : applyStatus(order, 'processing', true));
    expect(refusal).toBe(expected);
    if (expected !== null) return;
    order.paysCash = true;
    order.delivery ??= deliveryStatusFor(order, 'pending');
  });

const chooseCash = (number: number) =>
  orderCommand('the customer chooses cash at the door', number, async (order, { asVisitor, database }) => {
    await database.execute('update public.store_settings set offers_cash = true');
    // Each order has a phone of its own, so that one at a time for a phone is no limit here.
    const refusal = await refusalOf(
      asVisitor('choose_cash', { order_id: order.id, access_key: order.accessKey }),
    );
    const expected =
      cashRefusal(order) ??
      (order.paysCash || order.status !== 'pending' ? null : applyStatus(order, 'processing', true));
    expect(refusal).toBe(expected);
    if (expected !== null) return;
    order.paysCash = true;
    order.delivery ??= deliveryStatusFor(order, 'pending');
  });

/** @param difference to the charge, in cents */
const receiveCash = (number: number, difference: number) =>
  orderCommand(`staff receive cash, ${difference} cents off`, number, async (order, { asStaff }) => {
    const attempt = asStaff<{ id: string }>('receive_cash', {
      order_id: order.id,
      received_cents: chargeOf(order) + difference,
      difference: difference < 0 ? 'forgiven' : difference > 0 ? 'tip' : null,
      note: difference < 0 ? 'No coins' : null,
    });
    const isMissing = !order.isReserved && missingUnits(order.lines) !== null;
    const expected = cashRefusal(order) ?? (isMissing ? 'units_sold' : null);
    if (expected !== null) return expect(await refusalOf(attempt)).toBe(expected);
    const { id } = await attempt;
    order.paysCash = true;
    order.payments.push({
      isCash: true,
      id,
      checkoutRequestId: '',
      receipt: '',
      status: 'completed',
      needsRefund: false,
      hasReceipt: false,
      reportedCents: null,
      reviewCause: null,
      refunds: [],
    });
    sell(order);
  });

const cashOf = ({ payments }: ModelOrder) =>
  payments.filter(({ isCash }) => isCash).at(-1) as ModelPayment | undefined;
const hasCash = (order: ModelOrder) => cashOf(order) !== undefined;

const canStillPay = (payment: ModelPayment) =>
  !payment.isCash &&
  payment.status === 'completed' &&
  !isRefunded(payment) &&
  payment.refunds
    .filter(isLive)
    .every(({ status, tries }) => ['requested', 'approved'].includes(status) && tries === 0);

const takeBackCash = (number: number) =>
  orderCommand(
    'staff take cash back that they noted by mistake',
    number,
    async (order, { asStaff, readValue }) => {
      const payment = cashOf(order) as ModelPayment;
      const refusal = await refusalOf(
        asStaff('take_back_cash', { payment_id: payment.id, reason: 'Another order' }),
      );
      const isFinal =
        payment.status !== 'completed' ||
        isRefunded(payment) ||
        order.money !== 'paid' ||
        order.status === 'cancelled';
      expect(refusal).toBe(isFinal ? 'payment_final' : null);
      if (isFinal) return;
      payment.status = 'failed';
      // Money that came by M-PESA, too, pays the order instead of going back.
      const others = order.payments.filter(canStillPay);
      if (others.length > 0) {
        const id = await readValue(
          `select id from public.payments where order_id = $1 and status = 'completed' and not needs_refund`,
          [order.id],
        );
        const paying = others.find((other) => other.id === id) as ModelPayment;
        expect(paying).toBeDefined();
        paying.needsRefund = false;
        for (const refund of paying.refunds) {
          if (['requested', 'approved'].includes(refund.status)) refund.status = 'withdrawn';
        }
        order.paysCash = false;
        return;
      }
      order.money = 'unpaid';
      order.isReserved = true;
      order.isOver = false;
      order.isHoldOver = false;
      order.isLimitOver = false;
      order.isExtended = false;
    },
    hasCash,
  );

const giveBackCash = (number: number) =>
  orderCommand(
    'staff give cash back',
    number,
    async (order, { asStaff }) => {
      const payment = cashOf(order) as ModelPayment;
      const attempt = asStaff<{ id: string }>('give_back_cash', {
        payment_id: payment.id,
        reason: 'Cancelled',
      });
      if (isRefunded(payment)) return expect(await refusalOf(attempt)).toBe('refund_exists');
      if (payment.status !== 'completed' || order.money !== 'paid' || order.status !== 'cancelled') {
        return expect(await refusalOf(attempt)).toBe('nothing_to_send_back');
      }
      const refund: ModelRefund = {
        id: (await attempt).id,
        receipt: '',
        requestedBy: 'one',
        status: 'completed',
        tries: 0,
        isAccepted: false,
        wasReportedReversed: false,
        isReceiptKnown: false,
        wasSentTwice: false,
      };
      completeRefund(order, payment, refund);
      payment.refunds.push(refund);
    },
    hasCash,
  );

/** Settles a payment by a message of these facts alone. */
const settle = ({ asService }: Real, payment: ModelPayment, facts: Record<string, unknown>) =>
  asService('settle_payment', {
    payment_id: payment.id,
    source: 'callback',
    body: '{}',
    checkout_request_id: payment.checkoutRequestId,
    ...facts,
  });

const reportSuccess = (number: number, back: number, source: 'callback' | 'query') =>
  paymentCommand(`a ${source} reports a success`, number, back, async (order, payment, real) => {
    const named = source === 'callback' ? { received_cents: chargeOf(order), receipt: payment.receipt } : {};
    await settle(real, payment, { source, result: 'succeeded', result_code: '0', ...named });
    const isContradicted = payment.status === 'review' && payment.reviewCause === 'contradiction';
    const isStuck = payment.status === 'review' && source === 'query' && !isContradicted;
    if (payment.status !== 'completed' && !isStuck) recordPayment(order, payment);
    // A query names no receipt, but the message that contradicted itself may have.
    if (source === 'callback' || (isContradicted && payment.reportedCents === chargeOf(order)))
      payment.hasReceipt = true;
  });

const reportFailure = (number: number, back: number, source: 'callback' | 'query') =>
  paymentCommand(`a ${source} reports a failure`, number, back, async (_, payment, real) => {
    await settle(real, payment, { source, result: 'failed', result_code: '1032' });
    if (isOpen(payment)) payment.status = 'failed';
  });

const reportPending = (number: number, back: number) =>
  paymentCommand('a query is inconclusive', number, back, async (_, payment, real) => {
    await settle(real, payment, { source: 'query', result: 'pending', result_code: '4999' });
  });

const reportOtherAmount = (number: number, back: number, by: number) =>
  paymentCommand(`a callback reports ${by} cents more`, number, back, async (order, payment, real) => {
    const cents = Math.max(chargeOf(order) + by, 0);
    await settle(real, payment, {
      result: 'succeeded',
      result_code: '0',
      received_cents: cents,
      receipt: payment.receipt,
    });
    if (cents > 0 && !payment.hasReceipt) payment.reportedCents ??= cents;
    if (payment.status === 'completed') return;
    payment.status = 'review';
    payment.reviewCause ??= 'wrong_amount';
  });

const reportContradiction = (
  number: number,
  back: number,
  source: 'callback' | 'query',
  named: 'both' | 'amount',
) =>
  paymentCommand(
    `a ${source} reports a failure that names ${named === 'both' ? 'amount and receipt' : 'an amount'}`,
    number,
    back,
    async (order, payment, real) => {
      await settle(real, payment, {
        source,
        result: 'failed',
        result_code: '1032',
        received_cents: chargeOf(order),
        ...(named === 'both' ? { receipt: payment.receipt } : {}),
      });
      if (named === 'both' && !payment.hasReceipt) payment.reportedCents ??= chargeOf(order);
      if (payment.status === 'completed') return;
      payment.status = 'review';
      payment.reviewCause ??= 'contradiction';
    },
  );

const past = `now() - interval '1 second'`;
const endPaymentTime = (number: number, isLimit: boolean) =>
  orderCommand(
    `the time for payment ends${isLimit ? ', and its limit' : ''}`,
    number,
    async (order, { database }) => {
      await database.query(
        `update public.orders
         set expires_at = least(${past}, expiry_limit),
             reserved_until = case when reserved_until is not null then least(${past}, expiry_limit) end,
             expiry_limit = ${isLimit ? `least(${past}, expiry_limit)` : 'expiry_limit'}
         where id = $1`,
        [order.id],
      );
      order.isOver = true;
      order.isHoldOver = true;
      order.isLimitOver ||= isLimit;
    },
    // An expired order has no deadline.
    (order) => order.money === 'unpaid' && (order.isReserved || order.status === 'pending'),
  );

const endReservation = (number: number) =>
  orderCommand(
    'the reservation expires',
    number,
    async (order, { database }) => {
      await database.query(
        `update public.orders set reserved_until = least(${past}, expires_at) where id = $1`,
        [order.id],
      );
      order.isHoldOver = true;
    },
    (order) => order.isReserved && !order.isOver,
  );

const expireReservations: Command = {
  check: () => true,
  async run(model, real) {
    await real.expireReservations();
    for (const order of model.orders) expire(order);
    await expectSame(model, real);
  },
  toString: () => 'expired reservations are released',
};

const setOrderStatus = (number: number, status: string) =>
  orderCommand(`staff set ${status}`, number, async (order, { setStatus, handOver }) => {
    const refusal = await refusalOf(setStatus(order, status));
    expect(refusal).toBe(applyStatus(order, status));
    if (refusal !== 'order_unpaid') return;
    expect(await refusalOf(handOver(order, status))).toBe(applyStatus(order, status, true));
  });

const setDeliveryStatus = (number: number, delivery: string) =>
  orderCommand(
    `staff set the delivery to ${delivery}`,
    number,
    async (order, { queryAs }) => {
      const refusal = await refusalOf(
        queryAs('staff', 'update public.deliveries set delivery_status = $2 where order_id = $1', [
          order.id,
          delivery,
        ]),
      );
      expect(refusal).toBe(applyDelivery(order, delivery));
    },
    (order) => order.delivery !== null,
  );

const resolveByDelivering = (number: number) =>
  orderCommand('staff resolve the payment by delivering', number, async (order, { asStaff }) => {
    const refusal = await refusalOf(
      asStaff('resolve_paid_order', { order_id: order.id, resolution: 'deliver' }),
    );
    if (order.money !== 'needs_review') return expect(refusal).toBe('nothing_to_resolve');
    if (missingUnits(order.lines) !== null) return expect(refusal).toBe('units_sold');
    if (isHeld(order)) return expect(refusal).toBe('refund_under_way');
    expect(refusal).toBeNull();
    sell(order);
  });

// Refunds -------------------------------------------------------------------------------------------------------------------

const staffClaims: Record<StaffMember, Claims> = { one: people.staff, other: secondStepPassed };
const requestRefundBy = (number: number, back: number, member: StaffMember) =>
  paymentCommand(
    `staff member ${member} requests a refund`,
    number,
    back,
    async (order, payment, { requestRefund }) => {
      let requested: { id: string } | undefined;
      const refusal = await refusalOf(
        requestRefund(payment, { by: staffClaims[member] }).then((refund) => {
          requested = refund;
        }),
      );
      const mayGo =
        payment.needsRefund ||
        order.money === 'needs_review' ||
        (order.money === 'paid' && order.status === 'cancelled');
      if (payment.refunds.some(isLive)) return expect(refusal).toBe('refund_exists');
      if (payment.status !== 'completed' || !mayGo) return expect(refusal).toBe('nothing_to_send_back');
      if (!payment.hasReceipt) return expect(refusal).toBe('receipt_unknown');
      if (payment.reportedCents !== null && payment.reportedCents < chargeOf(order))
        return expect(refusal).toBe('amount_differs');
      expect(refusal).toBeNull();
      payment.refunds.push({
        id: requested?.id ?? '',
        receipt: nextReceipt(),
        requestedBy: member,
        status: chargeOf(order) > REFUND_LIMIT ? 'requested' : 'approved',
        tries: 0,
        isAccepted: false,
        wasReportedReversed: false,
        isReceiptKnown: false,
        wasSentTwice: false,
      });
    },
  );

/** A command on one of an order's refunds, counted from the newest. */
function refundCommand(
  title: string,
  number: number,
  back: number,
  work: (order: ModelOrder, payment: ModelPayment, refund: ModelRefund, real: Real) => Promise<unknown>,
): Command {
  const chosen = (order: ModelOrder) => {
    const all = order.payments.flatMap((payment) => payment.refunds.map((refund) => ({ payment, refund })));
    return all.at(-1 - (back % Math.max(all.length, 1)));
  };
  return orderCommand(
    `${title} (refund ${back} from the end)`,
    number,
    async (order, real) => {
      const found = chosen(order);
      if (found) await work(order, found.payment, found.refund, real);
    },
    (order) => chosen(order) !== undefined,
  );
}

const approve = (number: number, back: number, member: StaffMember) =>
  refundCommand(`staff member ${member} approves`, number, back, async (_, __, refund, { approveRefund }) => {
    const refusal = await refusalOf(approveRefund(refund, staffClaims[member]));
    if (refund.status !== 'requested') return expect(refusal).toBe('refund_changed');
    if (refund.requestedBy === member) return expect(refusal).toBe('second_member_needed');
    expect(refusal).toBeNull();
    refund.status = 'approved';
  });

const withdraw = (number: number, back: number, member: StaffMember) =>
  refundCommand(
    `staff member ${member} withdraws`,
    number,
    back,
    async (_, __, refund, { withdrawRefund }) => {
      const refusal = await refusalOf(withdrawRefund(refund, staffClaims[member]));
      if (['withdrawn', 'requested', 'approved'].includes(refund.status)) {
        expect(refusal).toBeNull();
        refund.status = 'withdrawn';
      } else expect(refusal).toBe('refund_changed');
    },
  );

const everyRefund = (model: Model) =>
  model.orders.flatMap(({ payments }) => payments.flatMap(({ refunds }) => refunds));

/** Runs the refund job: leases approved refunds, and marks interrupted ones as unknown. */
const sendRefunds: Command = {
  check: (model) => everyRefund(model).length > 0,
  async run(model, real) {
    await real.database.query(
      `update public.refunds set updated_at = now() - interval '1 day' where status = 'approved' and tries > 0`,
    );
    await real.asService('lease_refunds', { at_most: 10_000 });
    for (const refund of everyRefund(model)) {
      if (refund.status !== 'approved') continue;
      refund.status = 'sending';
      refund.tries += 1;
    }
    await expectSame(model, real);
  },
  toString: () => 'refunds are sent',
};

const interrupt: Command = {
  check: (model) => everyRefund(model).some(({ status }) => status === 'sending'),
  async run(model, real) {
    await real.database.query(
      `update public.refunds set sent_at = now() - interval '3 minutes' where status = 'sending'`,
    );
    for (const refund of everyRefund(model)) {
      if (refund.status === 'sending') refund.status = 'unknown';
    }
    await sendRefunds.run(model, real);
  },
  toString: () => 'the process that was sending refunds ended some minutes ago',
};

const answerReversal = (
  number: number,
  back: number,
  answer: 'accepted' | 'refused' | 'busy' | 'lost' | 'already reversed',
) =>
  refundCommand(`the reversal is ${answer}`, number, back, async (_, __, refund, { recordReversalPush }) => {
    await recordReversalPush(refund, {
      ...(answer === 'accepted'
        ? { conversation_id: `AG_${refund.id}`, originator_conversation_id: refund.id }
        : {}),
      ...(answer === 'refused' ? { refusal_code: '400.002.02' } : {}),
      ...(answer === 'busy' ? { refusal_code: '500.003.02' } : {}),
      ...(answer === 'already reversed' ? { refusal_code: 'R000001' } : {}),
    });
    if (answer === 'accepted') refund.isAccepted = true;
    if (answer === 'already reversed') refund.wasReportedReversed = true;
    if (refund.status !== 'sending') return;
    refund.status = (
      {
        accepted: 'sent',
        refused: 'failed',
        busy: 'approved',
        lost: 'unknown',
        'already reversed': 'unknown',
      } as const
    )[answer];
  });

/** Settles a refund by a message of these facts alone. */
const settleReversal = ({ asService }: Real, refund: ModelRefund, facts: Record<string, unknown>) =>
  asService('settle_reversal', { refund_id: refund.id, source: 'reversal_result', body: '{}', ...facts });

const reportReversal = (number: number, back: number, from: 'result' | 'status') =>
  refundCommand(
    `a ${from} reports a completed reversal`,
    number,
    back,
    async (order, payment, refund, real) => {
      const isNamed = from === 'result';
      await settleReversal(real, refund, {
        result: 'succeeded',
        ...(isNamed
          ? { result_code: '0', refund_receipt: refund.receipt, refund_cents: chargeOf(order) }
          : { source: 'status_result' }),
      });
      applyReversal(order, payment, refund, isNamed);
    },
  );

const reportReversalOfOtherAmount = (number: number, back: number) =>
  refundCommand('a result reports another amount', number, back, async (order, _, refund, real) => {
    await settleReversal(real, refund, {
      result: 'succeeded',
      result_code: '0',
      refund_receipt: nextReceipt(),
      refund_cents: chargeOf(order) + 100,
    });
    if (refund.tries > 0) refund.wasReportedReversed = true;
    if (isAtMpesa(refund)) refund.status = 'unknown';
  });

const reportReversalFailure = (number: number, back: number) =>
  refundCommand('a result reports a failure', number, back, async (_, __, refund, real) => {
    await settleReversal(real, refund, { result: 'failed', result_code: '11' });
    if (isAtMpesa(refund)) refund.status = 'failed';
  });

const reportNotReversed = (number: number, back: number, isOld: boolean) =>
  refundCommand(
    `the payment's status is still Completed, ${isOld ? 'long' : 'shortly'} after`,
    number,
    back,
    async (_, __, refund, real) => {
      if (isOld) {
        await real.database.query(
          `update public.refunds set sent_at = now() - interval '1 hour' where id = $1 and status in ('sent', 'unknown')`,
          [refund.id],
        );
      }
      const isRecent = await real.readValue<boolean>(
        `select coalesce(sent_at > now() - interval '10 minutes', false) from public.refunds where id = $1`,
        [refund.id],
      );
      await settleReversal(real, refund, { source: 'status_result', result: 'not_reversed' });
      // This proves that nothing was sent only if M-PESA never accepted the request.
      if (isAtMpesa(refund) && !isRecent && !refund.isAccepted && !refund.wasReportedReversed) {
        refund.status = 'failed';
      }
    },
  );

// Commands on payments occur more often than those of staff alone.
const small = fc.nat({ max: 5 });
const choice = fc.array(fc.tuple(small, fc.integer({ min: 1, max: 3 })), { minLength: 1, maxLength: 3 });
const source = fc.constantFrom('callback' as const, 'query' as const);
const statuses = fc.constantFrom(
  'pending',
  'processing',
  'shipped',
  'out_for_delivery',
  'delivered',
  'cancelled',
);
const deliveries = fc.constantFrom('pending', 'assigned', 'picked_up', 'in_transit', 'delivered', 'failed');
const commands: fc.Arbitrary<Command>[] = [
  choice.map((chosen) => placeOrder(chosen)),
  fc.tuple(choice, fc.integer({ min: 1, max: 3 })).map(([chosen, host]) => placeOrder(chosen, host)),
  choice.map((chosen) => placeOrder(chosen, null, true)),
  fc.tuple(choice, fc.integer({ min: 1, max: 3 })).map(([chosen, host]) => placeOrder(chosen, host, true)),
  fc.tuple(small, choice).map(([order, chosen]) => changeDrinks(order, chosen)),
  small.map(beginPayment),
  small.map(beginPayment),
  small.map(agreeCash),
  small.map(chooseCash),
  fc.tuple(small, fc.constantFrom(0, -100, 4900)).map(([order, by]) => receiveCash(order, by)),
  fc.tuple(small, fc.constantFrom(0, -100, 4900)).map(([order, by]) => receiveCash(order, by)),
  small.map(takeBackCash),
  small.map(giveBackCash),
  fc.tuple(small, fc.boolean()).map(([order, isPaid]) => cancelByCustomer(order, isPaid)),
  fc.tuple(small, fc.boolean()).map(([order, isPaid]) => cancelByCustomer(order, isPaid)),
  small.map(keepByCustomer),
  small.map(declineRequest),
  small.map(grantRequest),
  fc
    .tuple(small, small, fc.constantFrom('accepted' as const, 'refused' as const, 'lost' as const))
    .map(([order, back, answer]) => answerPush(order, back, answer)),
  fc.tuple(small, small, source).map(([order, back, from]) => reportSuccess(order, back, from)),
  fc.tuple(small, small, source).map(([order, back, from]) => reportSuccess(order, back, from)),
  fc.tuple(small, small, source).map(([order, back, from]) => reportFailure(order, back, from)),
  fc.tuple(small, small).map(([order, back]) => reportPending(order, back)),
  fc
    .tuple(small, small, fc.constantFrom(-100, 100, 1_000_000, -10_000_000))
    .map(([order, back, by]) => reportOtherAmount(order, back, by)),
  fc.tuple(small, fc.boolean()).map(([order, isLimit]) => endPaymentTime(order, isLimit)),
  small.map(endReservation),
  fc.constant(expireReservations),
  fc.tuple(small, statuses).map(([order, status]) => setOrderStatus(order, status)),
  fc.tuple(small, deliveries).map(([order, delivery]) => setDeliveryStatus(order, delivery)),
  small.map(resolveByDelivering),
];
const contradiction = fc
  .tuple(small, small, source, fc.constantFrom('both' as const, 'amount' as const))
  .map(([order, back, from, named]) => reportContradiction(order, back, from, named));
const member = fc.constantFrom<StaffMember>('one', 'other');
const refundCommands: fc.Arbitrary<Command>[] = [
  ...Array.from({ length: 3 }, () =>
    fc.tuple(small, small, member).map(([order, back, who]) => requestRefundBy(order, back, who)),
  ),
  fc.tuple(small, small, member).map(([order, back, who]) => approve(order, back, who)),
  fc.tuple(small, small, member).map(([order, back, who]) => withdraw(order, back, who)),
  fc.constant(sendRefunds),
  fc.constant(sendRefunds),
  fc.constant(interrupt),
  fc
    .tuple(
      small,
      small,
      fc.constantFrom(
        'accepted' as const,
        'refused' as const,
        'busy' as const,
        'lost' as const,
        'already reversed' as const,
      ),
    )
    .map(([order, back, answer]) => answerReversal(order, back, answer)),
  fc
    .tuple(small, small, fc.constantFrom('result' as const, 'status' as const))
    .map(([order, back, from]) => reportReversal(order, back, from)),
  fc.tuple(small, small).map(([order, back]) => reportReversalOfOtherAmount(order, back)),
  fc.tuple(small, small).map(([order, back]) => reportReversalFailure(order, back)),
  fc.tuple(small, small, fc.boolean()).map(([order, back, isOld]) => reportNotReversed(order, back, isOld)),
];

// Coverage of the commands --------------------------------------------------------------------------------------------------

/** The commands; each adds its kind to `done` when it runs. */
const recording = (kinds: fc.Arbitrary<Command>[], done: Set<fc.Arbitrary<Command>>) =>
  kinds.map((kind) =>
    kind.map(
      (command): Command => ({
        check: (model) => command.check(model),
        async run(model, real) {
          await command.run(model, real);
          done.add(kind);
        },
        toString: () => String(command),
      }),
    ),
  );

/** Rounds of runs, each with a seed of its own, until nothing is missing: the sequences of one seed may leave out a rare act. */
const MOST_ROUNDS = 6;

/**
 * Draws sequences until every act was done.
 * @param draw one round
 * @param missing what no round has done yet, as text
 */
async function untilAllDone(draw: (seed: number) => Promise<void>, missing: () => string[]): Promise<void> {
  for (let round = 0; round < MOST_ROUNDS; round += 1) {
    await draw(SEED + round * 1_000_003);
    if (missing().length === 0) return;
  }
  expect(missing(), `never done in ${MOST_ROUNDS} rounds`).toEqual([]);
}
const neverDone = (kinds: fc.Arbitrary<Command>[], done: Set<fc.Arbitrary<Command>>) =>
  kinds
    .filter((kind) => !done.has(kind))
    .flatMap((kind) => fc.sample(kind, 1))
    .map(String);

// Every case on the embedded database takes minutes on a busy machine.
describe.each(testDatabases())('on %s', { timeout: 600_000 }, (kind) => {
  const shop = setUpShop(kind);
  const { database } = shop;
  let codes = 0;
  /** A discount code for one run. */
  const makeCode = async () => {
    codes += 1;
    const code = `RUN-${codes}`;
    await database.query(
      'insert into public.discount_codes (code, percent, minimum_cents, max_uses) values ($1, $2, $3, $4)',
      [code, CODE.percent, CODE.minimum, CODE.mostUses],
    );
    return code;
  };
  const runs = (usual: number, exhaustive: number) => Math.ceil((isExhaustive ? exhaustive : usual) * LENGTH);

  test('orders, payments, deliveries and stock follow the model in any sequence of actions', async () => {
    const done = new Set<fc.Arbitrary<Command>>();
    const all = [...commands, contradiction];
    const draw = (seed: number) =>
      fc.assert(
        fc.asyncProperty(
          fc.array(fc.nat({ max: 5 }), { minLength: 1, maxLength: 3 }),
          fc.commands(recording(all, done), { maxCommands: 60, size: 'max' }),
          async (stocks, chosen) => {
            await fc.asyncModelRun(async () => {
              const products: ModelProduct[] = [];
              for (const stock of stocks) {
                const id = await makeProduct(database, stock, PRICE);
                products.push({ id, stock });
              }
              await database.query('delete from private.rate_limits');
              const code = await makeCode();
              return { model: { products, orders: [], code, network: randomNetwork() }, real: shop };
            }, chosen);
            await expectBalancedBooks(database);
            await expectExplainedDays(shop);
          },
        ),
        // Unbiased, because a few long sequences find more than many short ones.
        { seed, numRuns: runs(38, 80), unbiased: true },
      );
    await untilAllDone(draw, () => neverDone(all, done));
  });

  test('refunds and their orders follow the model in any sequence of actions, without a double refund', async () => {
    seenRefunds.clear();
    const done = new Set<fc.Arbitrary<Command>>();
    const all = [...commands, ...Array.from({ length: 5 }, () => refundCommands).flat()];
    const draw = (seed: number) =>
      fc.assert(
        fc.asyncProperty(
          fc.boolean(),
          fc.commands(recording(all, done), { maxCommands: 70, size: 'max' }),
          async (isScarce, chosen) => {
            const id = await makeProduct(database, isScarce ? 2 : 9, PRICE);
            const model: Model = {
              products: [{ id, stock: isScarce ? 2 : 9 }],
              orders: [],
              code: await makeCode(),
              network: randomNetwork(),
            };
            await fc.asyncModelRun(async () => {
              // Each run begins with orders that were paid twice, below and above the limit for approvals.
              for (const number of [0, 1]) {
                await placeOrder([[0, number + 1]]).run(model, shop);
                await beginPayment(number).run(model, shop);
                await reportFailure(number, 0, 'query').run(model, shop);
                await beginPayment(number).run(model, shop);
                await reportSuccess(number, 0, 'callback').run(model, shop);
                await reportSuccess(number, 1, 'callback').run(model, shop);
              }
              // In half of them M-PESA works on a refund already.
              if (!isScarce) {
                await requestRefundBy(0, 1, 'one').run(model, shop);
                await sendRefunds.run(model, shop);
                await answerReversal(0, 0, 'accepted').run(model, shop);
              }
              return { model, real: shop };
            }, chosen);
            await expectBalancedBooks(database);
            await expectExplainedDays(shop);
          },
        ),
        { seed, numRuns: runs(28, 50), unbiased: true },
      );
    const statuses = 'approved completed failed requested sending sent unknown withdrawn'.split(' ');
    await untilAllDone(draw, () => [
      ...neverDone(refundCommands, done),
      ...statuses.filter((status) => !seenRefunds.has(status)),
    ]);
    expect([...seenRefunds].filter((status) => !statuses.includes(status))).toEqual([]);
  });

  test("the records match M-PESA's messages in any order and number", async () => {
    const product = await makeProduct(database, 100_000, PRICE);
    const charge = PRICE + FEE;
    const times = fc.nat({ max: 2 });
    const attempt = fc.record({
      isPaid: fc.boolean(),
      /** Repetitions of each message about the payment, besides one by `reportedBy`, which contains the receipt. */
      callbacks: times,
      queries: times,
      confirmations: times,
      statements: times,
      reportedBy: fc.constantFrom('callback' as const, 'confirmation' as const, 'statement' as const),
      failures: times,
      /** Callbacks that say it failed, and name its money. */
      contradictions: times,
    });
    const byHand = fc.record({ isWhole: fc.boolean(), confirmations: times, statements: times });

    await fc.assert(
      fc.asyncProperty(
        fc.array(attempt, { minLength: 1, maxLength: 3 }),
        fc.array(byHand, { maxLength: 2 }),
        fc.infiniteStream(fc.nat({ max: 1_000 })),
        async (attempts, payments, choices) => {
          const order = await shop.place(product);
          const receipts = new Map<string, number>();
          const newReceipt = (cents: number) => {
            const receipt = nextReceipt();
            receipts.set(receipt, cents);
            return receipt;
          };
          const reference = order.tracking_number.replaceAll('-', '').replace(/^JJ20/, 'JJ');
          const report = (source: string, receipt: string, received_cents: number) => () =>
            shop.receive(reference, receipt, {
              source,
              received_cents,
              transacted_at: new Date().toISOString(),
            });
          const repeat = (count: number, message: () => Promise<unknown>) =>
            Array.from({ length: count }, () => message);

          const waiting: (() => Promise<unknown>)[] = payments.flatMap((payment) => {
            const cents = payment.isWhole ? charge : charge - 100;
            const receipt = newReceipt(cents);
            return [
              ...repeat(payment.confirmations, report('confirmation', receipt, cents)),
              ...repeat(payment.statements + 1, report('statement', receipt, cents)),
            ];
          });
          const prompt = async (index: number): Promise<void> => {
            const truth = attempts[index];
            if (!truth) return;
            const begun = await shop.begin(order).catch(() => null);
            // A payment arrived in the meantime, so no prompt is sent.
            if (!begun?.is_new) return;
            const payment: ModelPayment = {
              isCash: false,
              id: begun.payment.id,
              checkoutRequestId: newCheckoutRequestId(),
              receipt: '',
              status: 'initiating',
              needsRefund: false,
              hasReceipt: false,
              reportedCents: null,
              reviewCause: null,
              refunds: [],
            };
            await shop.recordPush(payment, { checkout_request_id: payment.checkoutRequestId });
            const fails = (source: string) => () =>
              settle(shop, payment, { source, result: 'failed', result_code: '1037' });
            waiting.push(...repeat(truth.failures, fails('query')));
            // A failure, after which the customer tries again. The first payment may still arrive late.
            waiting.push(async () => {
              await fails('callback')();
              await prompt(index + 1);
            });
            if (!truth.isPaid) return;
            const receipt = newReceipt(charge);
            const succeeds = (source: string, named: Record<string, unknown>) => () =>
              settle(shop, payment, { source, result: 'succeeded', result_code: '0', ...named });
            const sure = (source: string) => (truth.reportedBy === source ? 1 : 0);
            waiting.push(
              ...repeat(
                truth.callbacks + sure('callback'),
                succeeds('callback', { received_cents: charge, receipt }),
              ),
              ...repeat(truth.contradictions, () =>
                settle(shop, payment, {
                  result: 'failed',
                  result_code: '00',
                  received_cents: charge,
                  receipt,
                }),
              ),
              ...repeat(truth.queries, succeeds('query', {})),
              ...repeat(truth.confirmations + sure('confirmation'), report('confirmation', receipt, charge)),
              ...repeat(truth.statements + sure('statement'), report('statement', receipt, charge)),
            );
          };

          await prompt(0);
          while (waiting.length > 0) {
            const [message] = waiting.splice((choices.next().value ?? 0) % waiting.length, 1);
            await message?.();
          }

          const { rows: booked } = await database.query<{ receipt: string; cents: number; isKept: boolean }>(
            `select receipt, charge_cents as cents, not needs_refund as "isKept" from public.payments where order_id = $1 and status = 'completed'`,
            [order.id],
          );
          // An amount below the charge may wait for staff instead.
          const { rows: withStaff } = await database.query<{ receipt: string; cents: number }>(
            `select receipt, received_cents as cents from public.mpesa_transactions
             where payment_id is null and received_cents < $2::text::integer and receipt = any (string_to_array($1, ','))`,
            [[...receipts.keys()].join(','), String(charge)],
          );
          const known = [...booked, ...withStaff];
          expect(new Map(known.map(({ receipt, cents }) => [receipt, cents]))).toEqual(receipts);
          expect(known.length).toBe(receipts.size);
          expect(booked.filter(({ isKept }) => isKept)).toHaveLength(Math.min(booked.length, 1));
          await expectBalancedBooks(database);
        },
      ),
      { seed: SEED, numRuns: runs(10, 70) },
    );
    await expectExplainedDays(shop);
  });
});
