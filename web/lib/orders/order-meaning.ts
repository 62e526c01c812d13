// Describes an order's state to the customer, with the next action. Used by every screen of the storefront.
import { chargeCents, formatKsh } from '../../../domain/money.ts';
import type { OrderPaymentStatus, OrderStatus } from '../../../supabase/types.ts';
import { formatOrderTime } from './order-date.ts';

/** For an unpaid order: its newest payment that is open or ended without a known result. */
export type PaymentCheck = 'review' | 'goes_back' | 'prompted' | 'unresolved';

/** Statuses of orders in the storefront's words: `out_for_delivery`, not `shipped`. */
export type ShownStatus = Exclude<OrderStatus, 'shipped'>;

export interface OrderFacts {
  status: ShownStatus;
  paymentStatus: OrderPaymentStatus;
  paymentCheck: PaymentCheck | null;
  isRefunding: boolean;
  /** Null when it is not cancelled, or the reason is not known. */
  cancelledBecause: 'not_paid_in_time' | 'by_shop' | 'by_customer' | null;
  /** The customer asked to cancel the paid order, and staff have not answered. */
  isCancelRequested: boolean;
  /** Why staff declined that. Null without proof, and when they did not. */
  cancelAnswer: string | null;
  /** How the customer can cancel it. Null without proof, and when only the shop can. */
  wayToCancel: 'at_once' | 'by_request' | null;
  /** Cents. Null when the order is too old to be shown without proof. */
  total: number | null;
  /** Charged cents. Null without proof and before payment. */
  paid: number | null;
  /** The part of it in cents that was sent back. Null without proof and when there is none. */
  refunded: number | null;
  /** Received cents below the charge. */
  partPaid: number | null;
  /** Received cents beyond the charge, which are refunded. Null without proof and when there are none. */
  surplus: number | null;
  /** Cents of it that went back in part, while the order stays. Null without proof and when there are none. */
  partRefunded: number | null;
  /** Cents that are kept for the customer's next order. Null without proof and when there are none. */
  credit: number | null;
  /** Staff have yet to agree with the customer on fee and day. */
  awaitsAgreement: boolean;
  /** Paid in cash, or to be paid in cash at the door. */
  paysCash: boolean;
  paysCredit: boolean;
  /** ISO date-times, both null without proof. Null when no stock is reserved. */
  reservedUntil: string | null;
  expiresAt: string | null;
  /** ISO date-time: by when it arrives, while it is open. Null before it is paid, and where no time is promised. */
  arrivesBy: string | null;
}

type OrderKind =
  | 'to_agree'
  | 'unpaid'
  | 'paying'
  | 'checking'
  | 'preparing'
  | 'cancelling'
  | 'on_its_way'
  | 'delivered'
  | 'on_hold'
  | 'cancelled'
  | 'refunding'
  | 'refunded';

export interface OrderMeaning {
  kind: OrderKind;
  /** `due`: the customer must pay. `done`: complete. `calm`: the customer has nothing to do. */
  tone: 'due' | 'done' | 'calm';
  /** One line, for cards and callouts. */
  summary: string;
  /** Heading and text about the money, for the tracking page and the payment dialog. */
  title: string;
  text: string;
  /** Announced by screen readers when the state is new. */
  announcement: string;
  /** For the receipt. */
  paymentLabel: { colour: 'green' | 'yellow' | 'grey'; text: string };
  canPay: boolean;
  /** Whether it is to be paid in cash at the door. */
  paysCash: boolean;
  /** Whether stock is reserved now, as far as is known without proof. */
  holdsUnits: boolean;
  canOrderAgain: boolean;
  hasReceipt: boolean;
  /** ISO date-time. */
  arrivesBy: string | null;
}

/** @param now milliseconds since 1970 */
export function describeOrder(facts: OrderFacts, now: number): OrderMeaning {
  const kind = kindOf(facts);
  const words = wordsOf[kind](facts, now);
  const canPay = kind === 'unpaid' || kind === 'paying';
  return {
    kind,
    tone: canPay ? 'due' : isSettled(kind) ? 'done' : 'calm',
    ...words,
    paymentLabel: paymentLabelOf(facts),
    canPay,
    paysCash: canPay && facts.paysCash,
    holdsUnits: canPay && facts.reservedUntil !== null && Date.parse(facts.reservedUntil) > now,
    canOrderAgain: isOver({ kind }),
    hasReceipt: facts.paymentStatus !== 'unpaid',
    arrivesBy: facts.arrivesBy,
  };
}

/** Shown by the order dialog when the order was refused as cancelled, before the server has returned its state. */
export const cancelledFacts: OrderFacts = {
  status: 'cancelled',
  paymentStatus: 'unpaid',
  paymentCheck: null,
  isRefunding: false,
  cancelledBecause: null,
  isCancelRequested: false,
  cancelAnswer: null,
  wayToCancel: null,
  total: null,
  paid: null,
  refunded: null,
  partPaid: null,
  surplus: null,
  partRefunded: null,
  credit: null,
  awaitsAgreement: false,
  paysCash: false,
  paysCredit: false,
  reservedUntil: null,
  expiresAt: null,
  arrivesBy: null,
};

function kindOf({
  status,
  paymentStatus,
  paymentCheck,
  isRefunding,
  isCancelRequested,
  awaitsAgreement,
}: OrderFacts): OrderKind {
  if (paymentStatus === 'refunded') return 'refunded';
  if (isRefunding) return 'refunding';
  if (paymentStatus === 'needs_review') return 'on_hold';
  if (status === 'cancelled') return 'cancelled';
  if (paymentStatus === 'unpaid') {
    if (paymentCheck === 'review' || paymentCheck === 'goes_back') return 'checking';
    if (paymentCheck === 'prompted') return 'paying';
    return awaitsAgreement ? 'to_agree' : 'unpaid';
  }
  if (isCancelRequested) return 'cancelling';
  if (status === 'out_for_delivery') return 'on_its_way';
  return status === 'delivered' ? 'delivered' : 'preparing';
}

const isSettled = (kind: OrderKind): boolean =>
  kind === 'preparing' || kind === 'on_its_way' || kind === 'delivered';

/** Delivered, cancelled or refunded: nothing more happens to it. */
export const isOver = ({ kind }: Pick<OrderMeaning, 'kind'>): boolean =>
  kind === 'delivered' || kind === 'cancelled' || kind === 'refunded';

function paymentLabelOf({ status, paymentStatus, isRefunding }: OrderFacts): OrderMeaning['paymentLabel'] {
  if (paymentStatus === 'refunded') return { colour: 'grey', text: 'Refunded' };
  if (paymentStatus === 'unpaid') return { colour: 'yellow', text: 'Not paid yet' };
  if (isRefunding) return { colour: 'yellow', text: 'Paid, being sent back' };
  if (paymentStatus === 'needs_review') return { colour: 'yellow', text: 'Paid, order on hold' };
  return status === 'cancelled'
    ? { colour: 'yellow', text: 'Paid, then cancelled' }
    : { colour: 'green', text: 'Paid' };
}

type Words = Pick<OrderMeaning, 'summary' | 'title' | 'text' | 'announcement'>;

const wordsOf: Record<OrderKind, (facts: OrderFacts, now: number) => Words> = {
  to_agree: () => ({
    summary: "We'll call or WhatsApp you to agree the delivery fee and day. Nothing to pay yet.",
    title: "We'll contact you about the fee and day",
    text: 'Your place is outside our delivery within the hour, so we call or WhatsApp you to agree the delivery fee and the day. You pay after that, with M-PESA.',
    announcement: "We'll contact you to agree the delivery fee and day. There is nothing to pay yet.",
  }),
  unpaid: describeUnpaid,
  paying: (facts) => ({
    summary: `Waiting for M-PESA${facts.total === null ? '' : ` to confirm ${charge(facts)}`}.`,
    title: 'Waiting for M-PESA',
    text: `We've sent a prompt for ${charge(facts)} to the phone. Enter your M-PESA PIN there to pay.`,
    announcement: 'Waiting for M-PESA to confirm your payment.',
  }),
  checking: ({ paymentCheck }) =>
    paymentCheck === 'review'
      ? {
          summary: "We are checking your payment. Please don't pay again.",
          title: 'We are checking your payment',
          text: "M-PESA's report about it isn't clear, or names another amount than the one we asked for. Our team will check it and get in touch. You don't need to do anything, and please don't pay again.",
          announcement: "We are checking your payment. Please don't pay again.",
        }
      : {
          summary: "Your payment is being sent back. Please don't pay again until you hear from us.",
          title: 'Your payment is being sent back',
          text: "It reached us before we knew which order it was for, and goes back to the phone that paid. Our team will get in touch: please don't pay again until you hear from us.",
          announcement: "Your payment is being sent back. Please don't pay again until you hear from us.",
        },
  cancelling: (facts) => ({
    summary: 'You asked to cancel. Our team answers soon.',
    title: 'You asked to cancel this order',
    text: `Our team looks at it before anything else happens to your order. Then ${paidAmount(facts)} goes back ${facts.paysCash || facts.paysCredit ? 'to you' : 'to the phone that paid'}, or you read here why it can't be cancelled.`,
    announcement: 'Our team was asked to cancel your order.',
  }),
  preparing: (facts) => paid("Paid. We're preparing your drinks.", facts),
  on_its_way: (facts) => paid('Paid, and on its way to you.', facts),
  delivered: (facts) => paid('Delivered and paid.', facts),
  on_hold: (facts) => ({
    summary: "Payment received, order on hold. We'll call you.",
    title: 'Payment received, order on hold',
    text: `${whyOnHold(facts)}${describeRefundedPart(facts)} Our team will call you to sort it out.`,
    announcement: 'Your payment was received. Our team will contact you about the order.',
  }),
  cancelled: describeCancelled,
  refunding: (facts) => ({
    summary: `${facts.status === 'cancelled' ? 'Cancelled. ' : ''}We're sending ${amountLeft(facts)} back.`,
    title: 'Your money is on its way back',
    text: `We're sending ${amountLeft(facts)} back to the phone that paid.${describeRefundedPart(facts)}`,
    announcement: 'Your money is on its way back to you.',
  }),
  refunded: (facts) => ({
    summary: `${facts.status === 'cancelled' ? 'Cancelled. ' : ''}${sentence(paidAmount(facts))} was sent back.`,
    title: 'Payment refunded',
    text: `${sentence(paidAmount(facts))} was ${facts.paysCash ? 'given back in cash' : 'sent back to you by M-PESA'}.`,
    announcement: 'Your payment was refunded.',
  }),
};

/** The amount of the M-PESA prompt. */
const charge = ({ total }: OrderFacts): string =>
  total === null ? 'your order' : formatKsh(chargeCents(total));

/** The charge of a paid order in cents; null where it is hidden. Without proof it is calculated from the total. */
const chargedCents = ({ paid, total }: Pick<OrderFacts, 'paid' | 'total'>): number | null =>
  paid ?? (total === null ? null : chargeCents(total));

/**
 * The total of an order and what differs from it. After a payment the total is the charge, as on the customer's M-PESA message, and the
 * rounding is a line of its own.
 * @returns amounts in cents; null where the total is hidden; without differences no lines
 */
export function totalLines(facts: Pick<OrderFacts, 'paid' | 'paymentStatus' | 'total'>): {
  total: number | null;
  rounding: number;
  paid: number | null;
} {
  const { paymentStatus, total } = facts;
  if (paymentStatus === 'unpaid' || total === null) return { total, rounding: 0, paid: null };
  const due = chargeCents(total);
  const cents = chargedCents(facts);
  return { total: due, rounding: due - total, paid: cents === due ? null : cents };
}

/** A payment with another amount, or for stock that was released in the meantime. */
function whyOnHold({ paid, total, cancelledBecause }: OrderFacts): string {
  if (cancelledBecause === 'by_customer')
    return `${paid === null ? 'Your money' : `Your ${formatKsh(paid)}`} reached us after you had cancelled the order.`;
  if (paid === null) return 'Your money reached us, but after your drinks were sold or in another amount.';
  const reached = `Your ${formatKsh(paid)} reached us`;
  return total === null || paid === chargeCents(total)
    ? `${reached}, but your drinks were sold in the meantime.`
    : `${reached}, but your order comes to ${formatKsh(chargeCents(total))}.`;
}

const paidAmount = (facts: OrderFacts): string => {
  const cents = chargedCents(facts);
  return cents === null ? 'your payment' : formatKsh(cents);
};

/** The paid amount that was not sent back yet. */
const amountLeft = (facts: OrderFacts): string =>
  facts.refunded === null || facts.paid === null ? paidAmount(facts) : formatKsh(facts.paid - facts.refunded);

/** For an order paid in parts, of which one was sent back. */
const describeRefundedPart = ({ refunded }: OrderFacts): string =>
  refunded === null ? '' : ` ${formatKsh(refunded)} was sent back already.`;

const describeSurplus = ({ surplus }: OrderFacts): string =>
  surplus === null
    ? ''
    : ` Another ${formatKsh(surplus)} came for this order: it goes back to the phone that paid.`;

const describeKept = ({ partRefunded, credit }: OrderFacts): string =>
  (partRefunded === null ? '' : ` ${formatKsh(partRefunded)} of it went back to you.`) +
  (credit === null ? '' : ` ${formatKsh(credit)} is kept for your next order: ask us for it.`);

/** Quoted, because staff wrote it. */
const describeAnswer = ({ cancelAnswer }: OrderFacts): string =>
  cancelAnswer === null ? '' : ` You asked to cancel it, and we can't: “${cancelAnswer}”`;

const sentence = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

const paid = (summary: string, facts: OrderFacts): Words => ({
  summary,
  title: facts.paysCredit ? 'Paid with your credit' : facts.paysCash ? 'Paid in cash' : 'Paid with M-PESA',
  text: `${facts.paysCredit ? `Your credit paid ${paidAmount(facts)}` : `We received ${paidAmount(facts)}`}. Asante!${describeSurplus(facts)}${describeKept(facts)}${describeAnswer(facts)}`,
  announcement: 'Your payment was received.',
});

function describeUnpaid(facts: OrderFacts, now: number): Words {
  const isAhead = (time: string | null): time is string => time !== null && Date.parse(time) > now;
  const { status, total, partPaid, paymentCheck, reservedUntil, expiresAt } = facts;
  const notPaid = total === null ? 'Not paid yet' : `Not paid yet: ${charge(facts)}`;
  const title = total === null ? 'Payment due' : `Payment due: ${charge(facts)}`;
  const announcement = 'The payment is due.';
  const words = (summary: string, text: string) => ({ title, announcement, summary, text });

  if (paymentCheck === 'unresolved') {
    return {
      summary: `${notPaid}, as far as M-PESA has told us.`,
      title,
      text: "M-PESA hasn't told us how your last payment ended. If its message on your phone says that you paid, please don't pay again: send us the receipt. Otherwise you can pay now.",
      announcement: "M-PESA hasn't told us how your last payment ended.",
    };
  }
  if (partPaid !== null) {
    return words(
      `${notPaid}. ${formatKsh(partPaid)} has reached us so far.`,
      `${formatKsh(partPaid)} reached us for this order, which is not the whole amount. Pay the whole amount here, and we send that back; or call us to add it up.`,
    );
  }
  if (facts.paysCash) {
    const isDelivered = status === 'delivered';
    const isOnItsWay = status === 'out_for_delivery';
    return {
      announcement,
      title: `Cash at the door${total === null ? '' : `: ${charge(facts)}`}`,
      summary: isDelivered
        ? 'Delivered, to be paid in cash at the door.'
        : `${isOnItsWay ? 'On its way to you. ' : ''}${notPaid}, in cash at the door.`,
      text: isDelivered
        ? 'If you gave our rider the money, there is nothing more to do: we are noting it. If not, you can pay now.'
        : `${isOnItsWay ? '' : "We're preparing your drinks. "}Our rider collects the money when they arrive. You can also pay now.`,
    };
  }
  if (status === 'out_for_delivery') {
    return words(
      `On its way to you. ${notPaid}.`,
      'Your drinks are on their way, and your payment is still open. You can pay now.',
    );
  }
  if (status === 'delivered') {
    return words(
      `Delivered. ${notPaid}.`,
      "Your drinks were delivered, but we haven't received your payment. Please pay now. If you have paid already, call us with your M-PESA receipt.",
    );
  }
  if (status !== 'pending') {
    return words(
      `${notPaid}.`,
      "We're preparing your drinks, and your payment is still open. You can pay now.",
    );
  }
  if (isAhead(reservedUntil)) {
    const until = formatOrderTime(reservedUntil);
    return words(
      `${notPaid}, reserved until ${until}.`,
      `Your drinks are reserved for you until ${until}. They leave our fridge as soon as you have paid.`,
    );
  }
  if (isAhead(expiresAt)) {
    const by = formatOrderTime(expiresAt);
    return words(
      `${notPaid}. Please pay by ${by}.`,
      `This drink is in demand: please pay by ${by}. It is yours, and leaves our fridge, as soon as you have paid.`,
    );
  }
  return words(
    `${notPaid}.`,
    'Please pay soon, so that your drinks are not sold to someone else. They leave our fridge as soon as you have paid.',
  );
}

function describeCancelled(facts: OrderFacts): Words {
  const { paymentStatus, cancelledBecause, partPaid, paymentCheck } = facts;
  if (paymentStatus !== 'unpaid' && cancelledBecause === 'by_customer') {
    const rest = facts.refunded === null ? paidAmount(facts) : `the other ${amountLeft(facts)}`;
    return {
      summary: `Cancelled as you asked. We'll send ${paidAmount(facts)} back.`,
      title: 'Cancelled as you asked',
      text: `We'll send ${rest} back to you, and you see here when it is on its way.${describeRefundedPart(facts)}`,
      announcement: 'The order was cancelled as you asked. Your money goes back.',
    };
  }
  if (paymentStatus !== 'unpaid') {
    return {
      summary: "Cancelled after you paid. We'll refund you or give you a call.",
      title: 'Paid, then cancelled',
      text: `We received ${paidAmount(facts)} for this order.${describeRefundedPart(facts)} We'll refund you${facts.refunded === null ? '' : ' the rest'} or give you a call.`,
      announcement: 'The order was cancelled after it was paid. Our team will contact you.',
    };
  }
  const [summary, reason] = cancellation[cancelledBecause ?? 'unknown'];
  const money = moneyOfCancelled(partPaid, paymentCheck);
  return {
    summary,
    title: money === null ? 'Nothing to pay' : 'Order cancelled',
    text: `${reason} ${money ?? 'You are welcome to place a new one.'}`,
    announcement: 'The order was cancelled.',
  };
}

const cancellation = {
  not_paid_in_time: [
    "Cancelled: it wasn't paid in time.",
    "This order was cancelled because it wasn't paid in time.",
  ],
  by_shop: ['Cancelled by our team.', 'Our team cancelled this order before it was paid.'],
  by_customer: ['You cancelled this order.', 'You cancelled this order before it was paid.'],
  unknown: ['Cancelled.', 'This order was cancelled before it was paid.'],
} as const;

function moneyOfCancelled(partPaid: number | null, paymentCheck: PaymentCheck | null): string | null {
  if (partPaid !== null)
    return `${formatKsh(partPaid)} reached us for it: our team will sort it out with you.`;
  switch (paymentCheck) {
    case 'review':
      return 'M-PESA reported a payment for it: our team will sort it out with you.';
    case 'goes_back':
      return 'Your payment goes back to the phone that paid.';
    case 'prompted':
      return "A prompt may still be open on your phone: please don't confirm it. If you have, our team will call you.";
    case 'unresolved':
      return "M-PESA hasn't told us how your last payment ended. If its message on your phone says that you paid, please call us.";
    case null:
      return null;
  }
}
