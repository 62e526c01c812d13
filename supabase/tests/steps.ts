// Steps of tests on a shop database: customers order and pay, M-PESA reports, staff decide.
import { randomBytes, randomInt, randomUUID } from 'node:crypto';
import type { Database } from '@jani-juice/backend/database';
import { asRole } from '@jani-juice/backend/testing';
import { afterAll, beforeAll } from 'vitest';
import type { Database as Types } from '../types.ts';
import {
  type Caller,
  call,
  claimsOf,
  itemsForm,
  openShopDatabase,
  orderForm,
  type PlacedOrder,
  personIds,
  procedureCall,
  secondStepPassed,
} from './shop-database.ts';

export type Payment = Types['public']['Tables']['payments']['Row'];
export type Refund = Types['public']['Tables']['refunds']['Row'];
/** Arguments of a procedure, by name. Those of a step replace its defaults. */
type Arguments = Record<string, unknown>;
type OrderReference = Pick<PlacedOrder, 'id' | 'tracking_number'>;
type Attempt = Pick<Payment, 'id' | 'charge_cents' | 'checkout_request_id'>;
/** A payment, or the receipt of money that belongs to no order. */
type Money = { id: string } | string;

export interface Settlement {
  outcome: string;
  payment: Payment;
}
interface RefundWork {
  work: 'send' | 'query';
  refund: Refund;
  secret: string;
}
interface OrderState {
  status: string;
  money: string;
  is_reserved: boolean;
  deliveries: number;
  /** Of its product; null once that is deleted. */
  stock: number | null;
  /** The oldest first: method and status, and whether the payment needs a refund or was refunded. */
  payments: string[];
  /** The oldest first: method and status. */
  refunds: string[];
}

/** An M-PESA receipt that no other payment has. */
export const newReceipt = () => `UKL${randomBytes(4).toString('hex').toUpperCase().slice(0, 7)}`;
/** A phone number: prompts to one phone are limited. */
export const newPhone = () => `07${String(randomInt(100_000_000)).padStart(8, '0')}`;
export const newSecret = () => randomBytes(32).toString('hex');
export const newCheckoutRequestId = () => `ws_CO_${randomBytes(8).toString('hex')}`;
export const newConversationId = () => `AG_${randomBytes(8).toString('hex')}`;
/** M-PESA sends no body twice, except when it repeats a message. */
const newBody = () => JSON.stringify({ id: randomUUID() });

/** Changes of `settle`: the customer cancelled the prompt. */
export const failed = { result: 'failed', result_code: '1032', received_cents: null, receipt: null };
/** Changes of `settle`: the answer to a query, which contains neither amount nor receipt. */
export const byQuery = { source: 'query', received_cents: null, receipt: null };

/** Changes of `settleReversal`: M-PESA did not reverse the payment. */
export const reversalFailed = {
  result: 'failed',
  result_code: '11',
  refund_receipt: null,
  refund_cents: null,
};

/** Runs work several times concurrently. */
export const concurrently = <Result>(count: number, work: (index: number) => Promise<Result>) =>
  Promise.all(Array.from({ length: count }, (_, index) => work(index)));

/** Like `concurrently`, for work that may fail. */
export const settleAll = <Result>(count: number, work: (index: number) => Promise<Result>) =>
  Promise.allSettled(Array.from({ length: count }, (_, index) => work(index)));

/** A day in Nairobi. Default: today. */
export const nairobiDay = (time = Date.now()) => new Date(time + 3 * 3_600_000).toISOString().slice(0, 10);

/**
 * Opens a shop database before the tests of a `describe` block, and closes it after them.
 * @returns the database, which is usable from the hooks of the block on, and the steps on it
 */
export function setUpShop(kind: Database['kind']): { database: Database } & Steps {
  let opened: Database | undefined;
  beforeAll(async () => {
    opened = await openShopDatabase(kind);
  });
  afterAll(() => opened?.close());
  const database = new Proxy({} as Database, {
    get(_, name) {
      if (!opened) throw new Error('The shop database is opened in beforeAll');
      return Reflect.get(opened, name);
    },
  });
  return { database, ...shopSteps(database) };
}

export type Steps = ReturnType<typeof shopSteps>;

/** Steps on a shop database. They can be destructured. */
export function shopSteps(database: Database) {
  const callAs = <Answer>(caller: Caller, procedure: string, given?: Arguments, address?: string) =>
    call<Answer>(database, caller, procedure, given, address);
  const asVisitor = <Answer>(procedure: string, given?: Arguments, address?: string) =>
    callAs<Answer>('visitor', procedure, given, address);
  const asStaff = <Answer>(procedure: string, given?: Arguments) => callAs<Answer>('staff', procedure, given);
  const asService = <Answer>(procedure: string, given?: Arguments, address?: string) =>
    callAs<Answer>('service', procedure, given, address);

  /** Runs a statement with the rights of a caller. */
  const queryAs = <Row = Arguments>(caller: Caller, sql: string, parameters: unknown[] = []) =>
    asRole(database, claimsOf(caller), (session) => session.query<Row>(sql, parameters));
  /** The rows of a procedure that returns a table. */
  const rowsAs = async <Row = Arguments>(caller: Caller, procedure: string, given: Arguments = {}) =>
    (await queryAs<Row>(caller, `select * from ${procedureCall(procedure, given)}`, Object.values(given)))
      .rows;
  /** What a visitor's call of a procedure returns, also where that is its refusal: `asVisitor` throws it. */
  const answerToVisitor = async <Answer>(procedure: string, given: Arguments) => {
    const sql = `select ${procedureCall(procedure, given)} as answer`;
    const { rows } = await queryAs<{ answer: Answer }>('visitor', sql, Object.values(given));
    return rows[0]?.answer;
  };
  const readRows = async <Row = Arguments>(sql: string, parameters: unknown[] = []) =>
    (await database.query<Row>(sql, parameters)).rows;
  /** The first row. */
  const readRow = async <Row = Arguments>(sql: string, parameters: unknown[] = []) =>
    (await readRows<Row>(sql, parameters))[0];
  /** The first column of each row. */
  const readColumn = async <Value = string>(sql: string, parameters: unknown[] = []) =>
    (await readRows(sql, parameters)).map((row) => Object.values(row)[0] as Value);
  /** The first column of the first row. */
  const readValue = async <Value = string>(sql: string, parameters: unknown[] = []) =>
    (await readColumn<Value>(sql, parameters))[0];

  // Orders ----------------------------------------------------------------------------------------------------------------

  /**
   * Places an order. Further options are fields of the form.
   * @param options.by Default: a visitor
   * @param options.address IP address of the request. Default: none, an order of the shop itself
   */
  const place = (
    product: string,
    {
      quantity = 1,
      by = 'visitor',
      address,
      ...form
    }: { quantity?: number; by?: Caller; address?: string | undefined } & Arguments = {},
  ) => callAs<PlacedOrder>(by, 'place_order', { ...orderForm(product, quantity), ...form }, address);

  /**
   * Places an order of several drinks. Further options are fields of the form.
   * @param items as the caller sends them, valid or not
   * @param options.address IP address of the request. Default: none, an order of the shop itself
   */
  const placeItems = (
    items: unknown,
    expected_total: number,
    { address, ...form }: { address?: string | undefined } & Arguments = {},
  ) => asVisitor<PlacedOrder>('place_order', { ...itemsForm(items, expected_total), ...form }, address);
  /** The customer replaces the drinks of an order. */
  const changeItems = (
    { id, access_key }: Pick<PlacedOrder, 'id' | 'access_key'>,
    items: readonly { product_id: string; quantity: number }[],
    expected_total: number,
    address?: string,
  ) =>
    asVisitor<PlacedOrder>(
      'change_order_items',
      { order_id: id, access_key, items: JSON.stringify(items), expected_total },
      address,
    );

  /**
   * What the storefront shows of an order. Without proof it is masked.
   * @param proof `access_key` or `phone_last_four`
   */
  const track = <Answer = Arguments>(
    { tracking_number }: Pick<PlacedOrder, 'tracking_number'>,
    proof: Arguments = {},
    address?: string,
  ) => asVisitor<Answer>('track_order', { tracking_number, ...proof }, address);

  /** What the storefront shows the customer, whose device has the access key. */
  const trackAsCustomer = <Answer = Arguments>(order: PlacedOrder) =>
    track<Answer>(order, { access_key: order.access_key });

  /** Ends the time for payment of an order and its reservation. `expireReservations` cancels the order then. */
  const endPaymentTime = ({ id }: { id: string }) =>
    database.query(
      `update public.orders
       set expires_at = now() - interval '1 second',
           reserved_until = case when reserved_until is not null then now() - interval '1 second' end
       where id = $1`,
      [id],
    );
  /** Returns the number of orders whose reservation or time for payment ended. */
  const expireReservations = () => asService<number>('expire_reservations');
  /** Lets the time for payment pass. Returns the number of orders that ended. */
  const expire = async (order: { id: string }) => {
    await endPaymentTime(order);
    return expireReservations();
  };

  /** Sets the status of an order as the table service does. */
  const setStatus = ({ id }: { id: string }, status: string, by: Caller = 'staff') =>
    queryAs(by, 'update public.orders set status = $2 where id = $1', [id, status]);
  /** Staff set the status of an order, although it may be unpaid. */
  const handOver = ({ id }: { id: string }, status: string) =>
    queryAs(
      'staff',
      `select public.set_order_status(id, $2, status, payment_status, although_unpaid => true)
       from public.orders where id = $1`,
      [id, status],
    );

  /** @param options.withReceipts whether payments include their receipt and their amount in shillings. Default: false */
  const stateOf = async ({ id }: { id: string }, { withReceipts = false } = {}) => {
    const description = withReceipts
      ? `concat_ws(' ', p.method, p.status, p.receipt, p.charge_cents / 100)`
      : `concat_ws(' ', p.method, p.status)`;
    const state = await readRow<OrderState>(
      `select o.status, o.payment_status as money, o.reserved_until is not null as is_reserved,
         (select count(*)::integer from public.deliveries as d where d.order_id = o.id) as deliveries,
         (select p.stock_quantity from public.order_items as i join public.products as p on p.id = i.product_id
          where i.order_id = o.id) as stock,
         coalesce((
           select json_agg(${description} || case when p.needs_refund then ', needs refund' else '' end
             || case when p.refunded_at is not null then ', sent back' else '' end order by p.created_at, p.id)
           from public.payments as p where p.order_id = o.id
         ), '[]') as payments,
         coalesce((
           select json_agg(r.method || ' ' || r.status order by r.created_at)
           from public.refunds as r join public.payments as p on p.id = r.payment_id where p.order_id = o.id
         ), '[]') as refunds
       from public.orders as o where o.id = $1`,
      [id],
    );
    return state as OrderState;
  };
  /** `actor kind` of each event of an order. */
  const eventsOf = ({ id }: { id: string }) =>
    readColumn(`select actor || ' ' || kind from public.order_events where order_id = $1 order by id`, [id]);

  // Payments --------------------------------------------------------------------------------------------------------------

  /**
   * Begins a payment, before M-PESA is asked. Further options are arguments of `begin_payment`.
   * @param options.address IP address of the request. Default: none
   */
  const begin = (
    { id, tracking_number }: OrderReference,
    { address, ...given }: { address?: string | undefined } & Arguments = {},
  ) =>
    asService<{ is_new: boolean; payment: Payment; tracking_number?: string }>(
      'begin_payment',
      { order_id: id, tracking_number, phone: newPhone(), callback_secret: newSecret(), ...given },
      address,
    );
  /** Records M-PESA's answer to a push. Default: M-PESA accepted it. `{}`: the answer was lost. */
  const recordPush = (
    { id }: { id: string },
    answer: Arguments = { checkout_request_id: newCheckoutRequestId(), merchant_request_id: 'm-1' },
  ) => asService<Payment>('record_push', { payment_id: id, body: newBody(), ...answer });
  /** Sends a prompt, which M-PESA accepts. The options are those of `begin`. */
  const prompt = async (order: OrderReference, options: Parameters<typeof begin>[1] = {}) =>
    recordPush((await begin(order, options)).payment);
  /** A prompt of KSh 1 that tests the settings. */
  const beginTest = (given: Arguments = {}) =>
    asService<Payment>('begin_payment_test', {
      phone: '0712345678',
      callback_secret: newSecret(),
      requested_by: personIds.staff,
      ...given,
    });
  /** Settles a payment. Default: by a callback that reports success, with the charge and a new receipt. */
  const settle = ({ id, charge_cents, checkout_request_id }: Attempt, change: Arguments = {}) =>
    asService<Settlement>('settle_payment', {
      payment_id: id,
      source: 'callback',
      body: newBody(),
      result: 'succeeded',
      result_code: '0',
      received_cents: charge_cents,
      receipt: newReceipt(),
      checkout_request_id,
      ...change,
    });
  /** The customer pays by a prompt. */
  const pay = async (order: OrderReference) => settle(await prompt(order));

  /**
   * M-PESA reports money that came to the till, by a confirmation unless `source` says otherwise.
   * @param order names it in its reference and pays its charge. A text: the reference; the amount is that of one unit
   * @returns `payment` is null if the money waits for staff
   */
  const receive = (
    order: Pick<PlacedOrder, 'tracking_number' | 'charge_cents'> | string,
    receipt = newReceipt(),
    change: Arguments = {},
  ) =>
    asService<Settlement>('receive_mpesa_transaction', {
      source: 'confirmation',
      receipt,
      received_cents: typeof order === 'string' ? 95_100 : order.charge_cents,
      reference: typeof order === 'string' ? order : order.tracking_number,
      body: newBody(),
      ...change,
    });
  /** Staff enter a till payment for an order. Default: its whole charge. */
  const confirm = (
    { id, charge_cents }: Pick<PlacedOrder, 'id' | 'charge_cents'>,
    receipt = newReceipt(),
    { by = 'staff', ...change }: { by?: Caller } & Arguments = {},
  ) =>
    callAs<Settlement>(by, 'confirm_till_payment', {
      order_id: id,
      receipt,
      received_cents: charge_cents,
      ...change,
    });
  /** Staff correct a till payment that they entered. Default: nothing changes. */
  const correct = (
    seen: Pick<Payment, 'id' | 'receipt' | 'charge_cents'>,
    { by = 'staff', ...change }: { by?: Caller } & Arguments = {},
  ) =>
    callAs<{ outcome: string }>(by, 'correct_till_payment', {
      payment_id: seen.id,
      seen_receipt: seen.receipt,
      seen_cents: seen.charge_cents,
      receipt: seen.receipt,
      received_cents: seen.charge_cents,
      ...change,
    });
  /** Staff assign received money to an order. */
  const assign = ({ id }: { id: string }, receipt: string) =>
    asStaff<{ outcome: string; payment_id: string }>('resolve_difference', {
      decision: 'give',
      receipt,
      order_id: id,
    });
  /** Staff receive cash for an order. Default: the charge of one unit */
  const receiveCash = (
    { id }: { id: string },
    { by = 'staff', ...change }: { by?: Caller } & Arguments = {},
  ) => callAs<Payment>(by, 'receive_cash', { order_id: id, received_cents: 95_100, ...change });
  /** Staff pay an order by what is kept for its customer. */
  const payByCredit = ({ id }: { id: string }) => asStaff<Payment>('use_credit', { order_id: id });
  /** All money received, in cents. */
  const totalReceived = () =>
    readValue<string>('select coalesce(sum(received_cents), 0)::text from private.daily_totals').then(Number);
  const paymentOf = async (receipt: string) =>
    (await readRow('select * from public.payments where receipt = $1', [receipt])) as Payment;
  /** The row of a receipt or payment in the reconciliation of a day. Default: of today */
  const reconciliationRow = async <Row = Arguments>(id: string, day = nairobiDay()) =>
    (await asStaff<{ rows: (Row & { id: string })[] }>('reconciliation_day', { day })).rows.find(
      (row) => row.id === id,
    );

  // Refunds ---------------------------------------------------------------------------------------------------------------

  const named = (money: Money) =>
    typeof money === 'string' ? { receipt: money, is_sure: true } : { payment_id: money.id };
  /** @param options.by Default: the first staff member */
  const requestRefund = (money: Money, { by = 'staff' as Caller, reason = 'Customer cancelled' } = {}) =>
    callAs<Refund>(by, 'request_refund', { ...named(money), reason });
  const approveRefund = ({ id }: { id: string }, by: Caller = secondStepPassed) =>
    callAs<Refund>(by, 'approve_refund', { refund_id: id });
  const withdrawRefund = ({ id }: { id: string }, by: Caller = 'staff') =>
    callAs<Refund>(by, 'withdraw_refund', { refund_id: id });
  /** Staff record a refund that they sent themselves. */
  const noteRefundByHand = (money: Money, refund_receipt = newReceipt(), by: Caller = 'staff') =>
    callAs<Refund>(by, 'note_refund_by_hand', { ...named(money), refund_receipt, reason: 'Sent by hand' });
  /** Leases every due refund, to be sent or queried. */
  const leaseRefunds = async () =>
    (
      await queryAs<{ leased: RefundWork }>(
        'service',
        'select to_jsonb(leased) as leased from public.lease_refunds(50) as leased',
      )
    ).rows.map(({ leased }) => leased);
  /** Records M-PESA's answer to the request of a reversal. Default: M-PESA accepted it. `{}`: the answer was lost. */
  const recordReversalPush = (
    { id }: { id: string },
    answer: Arguments = {
      conversation_id: newConversationId(),
      originator_conversation_id: newConversationId(),
    },
  ) => asService<Refund>('record_reversal_push', { refund_id: id, body: newBody(), ...answer });
  /** Settles a refund. Default: by a result that reports the whole reversal, with a new receipt. */
  const settleReversal = (
    refund: Pick<Refund, 'id' | 'refund_cents' | 'originator_conversation_id'>,
    change: Arguments = {},
  ) =>
    asService<{ outcome: string; refund: Refund }>('settle_reversal', {
      refund_id: refund.id,
      source: 'reversal_result',
      body: newBody(),
      result: 'succeeded',
      result_code: '0',
      refund_receipt: newReceipt(),
      refund_cents: refund.refund_cents,
      originator_conversation_id: refund.originator_conversation_id,
      ...change,
    });
  /** Sends an approved refund, which M-PESA accepts and completes. */
  const completeRefund = async (refund: { id: string }, change: Arguments = {}) => {
    await leaseRefunds();
    return settleReversal(await recordReversalPush(refund), change);
  };
  /** The newest refund of a receipt. */
  const refundOf = async (receipt: string) =>
    (await readRow('select * from public.refunds where receipt = $1 order by created_at desc', [
      receipt,
    ])) as Refund;

  return {
    callAs,
    asVisitor,
    asStaff,
    asService,
    queryAs,
    rowsAs,
    answerToVisitor,
    readRows,
    readRow,
    readColumn,
    readValue,
    place,
    placeItems,
    changeItems,
    track,
    trackAsCustomer,
    endPaymentTime,
    expireReservations,
    expire,
    setStatus,
    handOver,
    stateOf,
    eventsOf,
    begin,
    recordPush,
    prompt,
    beginTest,
    settle,
    pay,
    receive,
    confirm,
    correct,
    assign,
    receiveCash,
    payByCredit,
    totalReceived,
    paymentOf,
    reconciliationRow,
    requestRefund,
    approveRefund,
    withdrawRefund,
    noteRefundByHand,
    leaseRefunds,
    recordReversalPush,
    settleReversal,
    completeRefund,
    refundOf,
  };
}
