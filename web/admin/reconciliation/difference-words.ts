// Texts of the reconciliation's kinds of rows, and their actions.
import type { BadgeTone } from '../../ui/badge.tsx';

/** A payment of ours and of M-PESA's side by side, by its receipt. Amounts in cents; the side that lacks it has null. */
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
    meaning: 'Its order was paid already. This money is to be sent back.',
  },
  wrong_amount: {
    label: 'Wrong amount',
    tone: 'orange',
    meaning: 'The amount that came is not the amount that was due.',
  },
  not_compared: {
    label: 'Not compared yet',
    tone: 'grey',
    meaning: "Only M-PESA's callback has reported it. The statement of that time has not been read yet.",
  },
};

export const kindOf = (row: BookRow): Kind => (row.kind in kinds ? (row.kind as Kind) : 'not_compared');

const refundWords: Record<string, string> = {
  requested: 'Refund waits for a second member',
  approved: 'Refund is queued',
  sending: 'Refund is being sent',
  sent: 'Refund is on its way',
  unknown: 'Refund: M-PESA is being asked',
  completed: 'Sent back',
};
const resolutionWords: Record<string, string> = {
  given: 'Given to its order by staff',
  not_an_order: 'Not an order',
  accepted: 'Accepted as it is',
};

/** Whether it came under an order's number and is less than its charge, so that it pays nothing by itself. */
export const isPart = ({ kind, payment_id, order_id }: BookRow): boolean =>
  kind === 'wrong_amount' && payment_id === null && order_id !== null;

/** Whether the order costs another amount than the money that is with it or named it. */
export const isOtherCharge = ({ kind, our_cents, charge_cents }: BookRow): boolean =>
  kind === 'wrong_amount' && charge_cents !== null && charge_cents !== our_cents;

/** What has become of a difference; '' while nothing has. */
export function describeState({ refund_status, resolution, refunded_at, is_open }: BookRow): string {
  if (refund_status && refundWords[refund_status]) return refundWords[refund_status];
  if (refunded_at) return 'Sent back';
  if (!is_open && resolution) return resolutionWords[resolution] ?? '';
  return '';
}

/** What staff may decide about it now, the most likely first. */
export function decisionsFor(row: BookRow): Decision[] {
  if (!row.is_open) {
    const isUndoable = row.resolution === 'not_an_order' || row.resolution === 'accepted';
    return isUndoable ? ['reopen'] : [];
  }
  switch (row.kind) {
    case 'missing_here':
      return ['give', 'not_an_order', 'refund'];
    case 'wrong_amount':
      // Where it is in an order already, the order itself is decided there.
      return isUnknown(row) ? ['give', 'refund', 'not_an_order'] : ['accept'];
    case 'double':
      return row.receipt ? ['refund', 'accept'] : ['accept'];
    case 'missing_there':
      return ['accept'];
    default:
      return [];
  }
}

/** Whether M-PESA has it and no payment of ours is it. */
export const isUnknown = ({ their_cents, payment_status }: BookRow): boolean =>
  their_cents !== null && payment_status !== 'completed';

export const decisionWords: Record<Decision, string> = {
  give: 'Give to an order',
  not_an_order: 'Not an order',
  refund: 'Send back',
  accept: 'Accept',
  reopen: 'Open again',
};

const eventWords: Record<string, string> = {
  given: 'Given to an order',
  not_an_order: 'Noted as not an order',
  refund: 'To be sent back',
  accepted: 'Accepted as it is',
  reopened: 'Opened again',
};

/** A decision of the history in words. */
export const describeDecision = (kind: string): string => eventWords[kind] ?? kind;

/** The success message of a decision. */
export function describeOutcome(decision: Decision, outcome: string | null): string {
  if (decision === 'give') {
    return outcome === 'paid'
      ? 'The order is paid with this money'
      : outcome === 'paid_needs_review'
        ? 'The money is with its order, which waits for your decision'
        : outcome === 'paid_twice'
          ? 'The order was paid already: this money is to be sent back'
          : outcome === 'joined'
            ? 'It is what the order was paid with: its receipt is known now'
            : 'The money is with its order';
  }
  return {
    not_an_order: 'Noted as not an order',
    refund: 'The refund is queued',
    accept: 'Accepted as it is',
    reopen: 'It is open again',
  }[decision];
}
