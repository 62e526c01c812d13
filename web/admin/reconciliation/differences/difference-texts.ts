// Texts of the reconciliation's kinds of rows, and their actions.

import { formatKes } from '../../../../domain/money.ts';
import type {
  OrderPaymentStatus,
  OrderStatus,
  PaymentMethod,
  PaymentStatus,
  ReconciliationEventKind,
  RefundStatus,
} from '../../../../supabase/types.ts';
import type { BadgeTone } from '../../../ui/badge.tsx';
import { entryOf, labelOf } from '../../status/label-of.ts';
import { hasLeftShop, isDroppedRefund } from '../../status/states.ts';
import {
  describeMoneyOfOrder,
  explainReviewDecision,
  isReviewDecision,
  labelReviewDecision,
  type ReviewDecision,
  reviewDecisionsFor,
} from './order-difference.ts';

/** A payment of the shop and of M-PESA side by side, by receipt. Amounts in cents; null if a side lacks it. */
export interface BookRow {
  id: string;
  happened_at: string;
  kind: Kind;
  is_open: boolean;
  receipt: string | null;
  our_cents: number | null;
  their_cents: number | null;
  payment_id: string | null;
  payment_status: PaymentStatus | null;
  method: PaymentMethod | null;
  needs_refund: boolean;
  refunded_at: string | null;
  refund_status: RefundStatus | null;
  order_id: string | null;
  order_number: string | null;
  tracking_number: string | null;
  customer_name: string | null;
  charge_cents: number | null;
  order_payment_status: OrderPaymentStatus | null;
  reference: string | null;
  payer_name: string | null;
  payer_phone: string | null;
  reported_by_confirmation_at: string | null;
  reported_by_statement_at: string | null;
  resolution: ReconciliationEventKind | null;
  order_status: OrderStatus | null;
  /** What counts for its order. */
  order_booked_cents: number | null;
  /** What waits under its order's number without being assigned. */
  order_waiting_cents: number | null;
  /** Change of the payment: still owed to the customer, and sent back in part. */
  owed_cents: number | null;
  returned_cents: number | null;
  /** The staff member who typed or assigned it. */
  confirmed_by: string | null;
}

export type Kind =
  | 'matched'
  | 'missing_here'
  | 'missing_there'
  /** Paid twice, in the word that tabs of earlier versions read. */
  | 'double'
  | 'wrong_amount'
  | 'typed'
  | 'not_compared';
export type Decision =
  | 'give'
  | 'not_an_order'
  | 'refund'
  | 'accept'
  | 'reopen'
  | 'take_back'
  | ReviewDecision;

export const kinds: Record<Kind, { label: string; tone: BadgeTone; meaning: string }> = {
  matched: { label: 'Matched', tone: 'green', meaning: 'Both books have it, with the same amount.' },
  missing_here: {
    label: 'Missing here',
    tone: 'red',
    meaning: 'M-PESA has this money, but it paid none of your orders.',
  },
  missing_there: {
    label: 'Missing at M-PESA',
    tone: 'red',
    meaning: 'Our books have it, but no confirmation or statement of that time does.',
  },
  double: {
    label: 'Paid twice',
    tone: 'orange',
    meaning: 'Its order was paid already. Refund this payment.',
  },
  wrong_amount: {
    label: 'Wrong amount',
    tone: 'orange',
    meaning: 'The amount that came is not the amount that was due, or M-PESA contradicted itself about it.',
  },
  typed: {
    label: 'Typed, not confirmed',
    tone: 'orange',
    meaning:
      'Your staff typed this receipt, and M-PESA has not reported it, although it reports your payments. Look for it in the till’s own messages.',
  },
  not_compared: {
    label: 'Not compared yet',
    tone: 'grey',
    meaning: "Only M-PESA's callback has reported it. The statement of that time has not been read yet.",
  },
};

const isKind = (kind: string): kind is Kind => Object.hasOwn(kinds, kind);
/** A kind that a later version added is shown as not compared. */
export const readKind = (kind: string): Kind => (isKind(kind) ? kind : 'not_compared');

/** A refund that failed or was withdrawn leaves the difference as it was. */
const refundLabels: Record<RefundStatus, string | null> = {
  requested: "Refund awaits a colleague's approval",
  approved: 'Refund is queued',
  sending: 'Refund is being sent',
  sent: 'Refund is on its way',
  unknown: 'Refund: checking with M-PESA',
  completed: 'Sent back',
  failed: null,
  withdrawn: null,
};
/** The latest decision, where the state is not shown otherwise. */
const resolutionLabels: Record<ReconciliationEventKind, string> = {
  given: 'Assigned to its order by staff',
  not_an_order: 'Not an order',
  accepted: 'Kept as it is',
  delivered: 'Delivered as paid',
  refund: '',
  reopened: '',
  taken_back: '',
  change_credit: '',
  change_to_return: '',
  change_returned: '',
  change_used: '',
  change_use_taken_back: '',
  change_not_owed: '',
};

/**
 * Whether it came with an order's number and is less than its charge, so that it does not pay the order by itself.
 */
export const isPart = ({ kind, payment_id, order_id }: BookRow): boolean =>
  kind === 'wrong_amount' && payment_id === null && order_id !== null;

/** Whether the order's charge differs from the payment that belongs to it or referred to it. */
export const isOtherCharge = ({ kind, our_cents, charge_cents }: BookRow): boolean =>
  kind === 'wrong_amount' && charge_cents !== null && charge_cents !== our_cents;

/** What the shop has booked, in cents: not what it only requested while the payment needs review. */
export const bookedCents = ({ payment_status, our_cents }: BookRow): number | null =>
  payment_status === 'completed' ? our_cents : null;

/** The outcome of a difference; '' while there is none. */
export function describeState({ refund_status, resolution, refunded_at, is_open }: BookRow): string {
  const refund = refund_status && entryOf(refundLabels, refund_status, (words) => `Refund: ${words}`);
  if (refund) return refund;
  if (refunded_at) return 'Sent back';
  if (!is_open && resolution) return labelOf(resolutionLabels, resolution);
  return '';
}

/** What came for the order of a row and counts for it, with its charge. */
export const amountsOf = (row: BookRow) => ({
  // Money that waits is assigned with the decision.
  receivedCents: (row.order_booked_cents ?? 0) + (row.payment_id === null ? (row.their_cents ?? 0) : 0),
  chargeCents: row.charge_cents ?? 0,
  owedCents: row.owed_cents ?? 0,
});

/** What is said about the money of a row whose amount is not the order's charge; '' for other rows. */
export const describeMoney = (row: BookRow): string =>
  row.kind !== 'wrong_amount' && !(row.kind === 'matched' && isPartOfMatched(row))
    ? ''
    : row.order_id === null ||
        row.charge_cents === null ||
        (row.payment_id !== null && row.payment_status !== 'completed')
      ? ''
      : describeMoneyOfOrder({
          cents: row.our_cents ?? row.their_cents ?? 0,
          isAssigned: row.payment_id !== null,
          chargeCents: row.charge_cents,
          paymentStatus: row.order_payment_status ?? 'unpaid',
          status: row.order_status ?? 'pending',
          bookedCents: row.order_booked_cents ?? 0,
          waitingCents: row.order_waiting_cents ?? 0,
        });
const isPartOfMatched = ({ our_cents, charge_cents }: BookRow) => our_cents !== charge_cents;

/** Whether staff assigned or typed the money and its order is still in the shop, as `take_back_payment` requires. */
export const canTakeBack = (row: BookRow): boolean =>
  row.payment_id !== null &&
  row.payment_status === 'completed' &&
  row.method === 'till' &&
  row.confirmed_by !== null &&
  row.refunded_at === null &&
  (row.refund_status === null || isDroppedRefund(row.refund_status)) &&
  !row.owed_cents &&
  !row.returned_cents &&
  // Credit of it paid another order.
  (row.needs_refund || (row.order_booked_cents ?? 0) >= (row.our_cents ?? 0)) &&
  (row.needs_refund || (row.order_status !== null && !hasLeftShop(row.order_status)));

/** The decisions that staff can make now, the most likely first. */
export function decisionsFor(row: BookRow): Decision[] {
  const takeBack: Decision[] = canTakeBack(row) ? ['take_back'] : [];
  if (!row.is_open) {
    const isUndoable = row.resolution === 'not_an_order' || row.resolution === 'accepted';
    return isUndoable ? ['reopen', ...takeBack] : takeBack;
  }
  switch (row.kind) {
    case 'missing_here':
      return ['give', 'not_an_order', 'refund'];
    case 'wrong_amount':
      if (isUnknown(row)) {
        const { receivedCents, chargeCents } = amountsOf(row);
        const canDeliver =
          isPart(row) &&
          receivedCents < chargeCents &&
          row.order_status !== 'cancelled' &&
          (row.order_payment_status === 'unpaid' || row.order_payment_status === 'needs_review');
        return ['give', ...(canDeliver ? (['deliver'] as const) : []), 'refund', 'not_an_order'];
      }
      return row.payment_status === 'completed' && row.order_payment_status === 'needs_review'
        ? [...reviewDecisionsFor(amountsOf(row)), ...takeBack]
        : ['accept', ...takeBack];
    case 'double':
      return [...(row.receipt ? (['refund'] as const) : []), 'accept', ...takeBack];
    case 'typed':
    case 'missing_there':
      return ['accept', ...takeBack];
    case 'matched':
    case 'not_compared':
      return [];
  }
}

/** Whether only M-PESA has the payment. */
export const isUnknown = ({ their_cents, payment_status }: BookRow): boolean =>
  their_cents !== null && payment_status !== 'completed';

const decisionLabels: Record<'give' | 'not_an_order' | 'refund' | 'reopen' | 'take_back', string> = {
  give: 'Assign to an order',
  not_an_order: 'Not an order',
  refund: 'Send back',
  reopen: 'Open again',
  take_back: 'Take back from the order',
};

/** By how much what M-PESA has differs from what is booked, in cents. */
const surplusOf = ({ their_cents, our_cents }: BookRow): number =>
  (their_cents ?? our_cents ?? 0) - (our_cents ?? 0);

/** The words of a decision's button: what happens to the order or the money. */
export function labelDecision(decision: Decision, row: BookRow): string {
  if (isReviewDecision(decision)) return labelReviewDecision(decision, amountsOf(row));
  if (decision !== 'accept') return decisionLabels[decision];
  const surplus = surplusOf(row);
  if (row.kind === 'double') return `Keep ${formatKes(row.our_cents ?? row.their_cents ?? 0)} as credit owed`;
  if (row.kind === 'wrong_amount' && row.payment_status !== 'completed') return 'Note that no money came';
  if (row.kind === 'wrong_amount' && surplus > 0) return `Keep ${formatKes(surplus)} as credit owed`;
  return row.kind === 'wrong_amount' && surplus < 0 ? `Forgive ${formatKes(-surplus)}` : 'Keep it as paid';
}

/** What a decision does, to be confirmed before it is saved. Null: it is saved at once, because it can be undone. */
export function explainDecision(decision: Decision, row: BookRow): string | null {
  const money = formatKes(row.their_cents ?? row.our_cents ?? 0);
  const order = row.order_number
    ? `order ${row.order_number} of ${row.customer_name ?? 'its customer'}`
    : 'its order';
  if (isReviewDecision(decision)) {
    return explainReviewDecision(decision, {
      ...amountsOf(row),
      orderNumber: row.order_number ?? '',
      customerName: row.customer_name ?? 'the customer',
    });
  }
  switch (decision) {
    case 'refund':
      return `Send ${money} back to who paid? What M-PESA has sent back cannot be undone. Larger amounts need a colleague's approval.`;
    case 'take_back':
      return `${money} is taken back from ${order} and waits for another order. ${
        row.needs_refund
          ? 'The order stays as it is.'
          : 'The order is no longer paid with it. If its customer got a message about the payment, another one follows.'
      }`;
    case 'accept':
      return row.kind === 'missing_there' || row.kind === 'typed'
        ? `${money} stays booked for ${order}, although M-PESA has not reported it.`
        : row.payment_status === 'completed'
          ? `${labelDecision('accept', row)} for ${order}? The order stays as it is.`
          : `No money was booked for ${order}, and its customer can pay again.`;
    default:
      return null;
  }
}

const eventLabels: Record<ReconciliationEventKind, string> = {
  given: 'Assigned to an order',
  not_an_order: 'Noted as not an order',
  refund: 'To be sent back',
  accepted: 'Kept as it is',
  reopened: 'Opened again',
  taken_back: 'Taken back from its order',
  delivered: 'Its order is delivered as paid',
  change_credit: 'Credit owed to the customer',
  change_to_return: 'Change to send back',
  change_returned: 'Change sent back',
  change_used: 'Credit paid another order',
  change_use_taken_back: 'Credit owed again',
  change_not_owed: 'Less credit owed',
};

/** A decision in the history, as text. */
export const describeDecision = (kind: ReconciliationEventKind): string => labelOf(eventLabels, kind);

/** The success message of a decision. */
export function describeOutcome(decision: Decision, outcome: string | null): string {
  if (decision === 'give') {
    return outcome === 'paid'
      ? 'The order is paid with this money'
      : outcome === 'paid_needs_review'
        ? 'The money is assigned to its order, which needs your review'
        : outcome === 'paid_twice'
          ? 'The order was paid already: refund this payment'
          : outcome === 'joined'
            ? "The order's payment now has its receipt"
            : 'The money is assigned to its order';
  }
  if (decision === 'take_back') {
    return outcome === 'unpaid'
      ? 'The money is taken back. Its order is unpaid again'
      : outcome === 'needs_review'
        ? 'The money is taken back. Its order needs your review'
        : 'The money is taken back. Its order stays as it is';
  }
  return {
    not_an_order: 'Noted as not an order',
    refund: 'The refund is queued',
    accept: 'Kept as it is',
    reopen: 'It is open again',
    deliver: 'The order will be delivered',
    deliver_with_credit: 'The order will be delivered, and the credit is noted',
    deliver_and_return: 'The order will be delivered. Send the change back and note it with the order',
    cancel_and_refund: 'The refund is queued, and ends the order',
  }[decision];
}
