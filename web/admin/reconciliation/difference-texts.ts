// Texts of the reconciliation's kinds of rows, and their actions.
import type { BadgeTone } from '../../ui/badge.tsx';

/** A payment of the shop and of M-PESA side by side, by receipt. Amounts in cents; null if a side lacks it. */
export interface BookRow {
  id: string;
  happened_at: string;
  kind: string;
  is_open: boolean;
  receipt: string | null;
  our_cents: number | null;
  their_cents: number | null;
  payment_id: string | null;
  payment_status: string | null;
  method: string | null;
  needs_refund: boolean;
  refunded_at: string | null;
  refund_status: string | null;
  order_id: string | null;
  order_number: string | null;
  tracking_number: string | null;
  customer_name: string | null;
  charge_cents: number | null;
  order_payment_status: string | null;
  reference: string | null;
  payer_name: string | null;
  payer_phone: string | null;
  reported_by_confirmation_at: string | null;
  reported_by_statement_at: string | null;
  resolution: string | null;
}

export type Kind = 'matched' | 'missing_here' | 'missing_there' | 'double' | 'wrong_amount' | 'not_compared';
export type Decision = 'give' | 'not_an_order' | 'refund' | 'accept' | 'reopen';

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
    label: 'Double',
    tone: 'orange',
    meaning: 'Its order was paid already. Refund this payment.',
  },
  wrong_amount: {
    label: 'Wrong amount',
    tone: 'orange',
    meaning: 'The amount that came is not the amount that was due, or M-PESA contradicted itself about it.',
  },
  not_compared: {
    label: 'Not compared yet',
    tone: 'grey',
    meaning: "Only M-PESA's callback has reported it. The statement of that time has not been read yet.",
  },
};

export const kindOf = (row: BookRow): Kind => (row.kind in kinds ? (row.kind as Kind) : 'not_compared');

const refundLabels: Record<string, string> = {
  requested: "Refund awaits a colleague's approval",
  approved: 'Refund is queued',
  sending: 'Refund is being sent',
  sent: 'Refund is on its way',
  unknown: 'Refund: checking with M-PESA',
  completed: 'Sent back',
};
const resolutionLabels: Record<string, string> = {
  given: 'Assigned to its order by staff',
  not_an_order: 'Not an order',
  accepted: 'Accepted as it is',
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
  if (refund_status && refundLabels[refund_status]) return refundLabels[refund_status];
  if (refunded_at) return 'Sent back';
  if (!is_open && resolution) return resolutionLabels[resolution] ?? '';
  return '';
}

/** The decisions that staff can make now, the most likely first. */
export function decisionsFor(row: BookRow): Decision[] {
  if (!row.is_open) {
    const isUndoable = row.resolution === 'not_an_order' || row.resolution === 'accepted';
    return isUndoable ? ['reopen'] : [];
  }
  switch (row.kind) {
    case 'missing_here':
      return ['give', 'not_an_order', 'refund'];
    case 'wrong_amount':
      // A payment that belongs to an order is resolved there.
      return isUnknown(row) ? ['give', 'refund', 'not_an_order'] : ['accept'];
    case 'double':
      return row.receipt ? ['refund', 'accept'] : ['accept'];
    case 'missing_there':
      return ['accept'];
    default:
      return [];
  }
}

/** Whether only M-PESA has the payment. */
export const isUnknown = ({ their_cents, payment_status }: BookRow): boolean =>
  their_cents !== null && payment_status !== 'completed';

export const decisionLabels: Record<Decision, string> = {
  give: 'Assign to an order',
  not_an_order: 'Not an order',
  refund: 'Send back',
  accept: 'Accept',
  reopen: 'Open again',
};

const eventLabels: Record<string, string> = {
  given: 'Assigned to an order',
  not_an_order: 'Noted as not an order',
  refund: 'To be sent back',
  accepted: 'Accepted as it is',
  reopened: 'Opened again',
};

/** A decision in the history, as text. */
export const describeDecision = (kind: string): string => eventLabels[kind] ?? kind;

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
  return {
    not_an_order: 'Noted as not an order',
    refund: 'The refund is queued',
    accept: 'Accepted as it is',
    reopen: 'It is open again',
  }[decision];
}
