// Money for an order that is not its charge: what is said about it, and the decisions about it, named by what happens to the order.
// The database applies them (`resolve_review`).
import { formatKes } from '../../../../domain/money.ts';
import type { OrderPaymentStatus, OrderStatus } from '../../../../supabase/types.ts';

/** Amounts in cents. */
export interface AmountOfOrder {
  /** What came for the order and counts for it. */
  receivedCents: number;
  chargeCents: number;
  /** What is owed of it besides: a refund returns that, too. */
  owedCents?: number;
}

const reviewDecisions = [
  'deliver',
  'deliver_with_credit',
  'deliver_and_return',
  'cancel_and_refund',
] as const;
export type ReviewDecision = (typeof reviewDecisions)[number];

export const isReviewDecision = (decision: string): decision is ReviewDecision =>
  reviewDecisions.some((each) => each === decision);

/** The decisions about an order that needs review, the most likely first. */
export function reviewDecisionsFor({ receivedCents, chargeCents }: AmountOfOrder): ReviewDecision[] {
  return receivedCents > chargeCents
    ? ['deliver_with_credit', 'deliver_and_return', 'cancel_and_refund']
    : ['deliver', 'cancel_and_refund'];
}

/** The words of a decision's button. */
export function labelReviewDecision(
  decision: ReviewDecision,
  { receivedCents, chargeCents, owedCents = 0 }: AmountOfOrder,
): string {
  const difference = formatKes(Math.abs(receivedCents - chargeCents));
  const refund = receivedCents + owedCents;
  switch (decision) {
    case 'deliver':
      return receivedCents < chargeCents ? `Deliver as paid, forgive ${difference}` : 'Deliver as paid';
    case 'deliver_with_credit':
      return `Deliver and keep ${difference} as credit owed`;
    case 'deliver_and_return':
      return `Deliver and send ${difference} back`;
    case 'cancel_and_refund':
      return refund === 0 ? 'Cancel the order' : `Cancel and refund ${formatKes(refund)}`;
  }
}

/** What a decision does, to be confirmed: names order, customer and amounts. */
export function explainReviewDecision(
  decision: ReviewDecision,
  {
    receivedCents,
    chargeCents,
    owedCents = 0,
    orderNumber,
    customerName,
  }: AmountOfOrder & { orderNumber: string; customerName: string },
): string {
  const refund = receivedCents + owedCents;
  const difference = formatKes(Math.abs(receivedCents - chargeCents));
  const money = `${formatKes(receivedCents)} came for ${orderNumber} of ${customerName}, and ${formatKes(chargeCents)} was due.`;
  switch (decision) {
    case 'deliver':
      return receivedCents < chargeCents
        ? `${money} The order is delivered, and the missing ${difference} is not asked for.`
        : `${money} The order is delivered.`;
    case 'deliver_with_credit':
      return `${money} The order is delivered, and ${difference} is noted as credit that you owe ${customerName}.`;
    case 'deliver_and_return':
      return `${money} The order is delivered, and ${difference} is noted as change to send back. The shop moves no money: send it by M-PESA, then note it with the order.`;
    case 'cancel_and_refund':
      return refund === 0
        ? `Nothing of the money for ${orderNumber} of ${customerName} is left: it paid another order, or went back. The order is cancelled, and no money moves.`
        : `${money} The order is not delivered, and ${formatKes(refund)} goes back by M-PESA, which cannot be undone. Larger amounts need a colleague's approval.`;
  }
}

/** Money under review, and the state of its order. Amounts in cents. */
export interface MoneyOfOrder {
  /** The amount of this money. */
  cents: number;
  /** Whether it is the order's, or waits under its number. */
  isAssigned: boolean;
  /** Whether it came in addition to what paid the order. */
  isSurplus?: boolean;
  chargeCents: number;
  paymentStatus: OrderPaymentStatus;
  status: OrderStatus;
  /** What counts for the order by now, this money included if it is assigned. */
  bookedCents: number;
  /** What waits under the order's number, this money included if it is not assigned. */
  waitingCents: number;
}

/** What is said about money for an order, in the present state of the order. */
export function describeMoneyOfOrder(money: MoneyOfOrder): string {
  const { cents, chargeCents, bookedCents, paymentStatus } = money;
  const [amount, charge] = [formatKes(cents), formatKes(chargeCents)];
  if (money.isSurplus) return `The order is paid without it. Send ${amount} back.`;
  if (!money.isAssigned) return describeWaiting(money);
  const difference = formatKes(Math.abs(bookedCents - chargeCents));
  if (paymentStatus === 'refunded') return 'The money of this order went back to the customer.';
  if (bookedCents === chargeCents) {
    return cents > chargeCents
      ? `${charge} of it pays the order. The rest is owed to the customer, went back or paid another order.`
      : cents < chargeCents
        ? `It is one part of the ${charge} that the order was paid with.`
        : `It is the order's charge of ${charge}.`;
  }
  const isShort = bookedCents < chargeCents;
  if (paymentStatus === 'paid') {
    return isShort
      ? `The order is delivered as paid with ${formatKes(bookedCents)}: ${difference} less than its charge.`
      : `The order is paid: ${difference} more came than its charge.`;
  }
  if (bookedCents < cents && isShort) {
    return `${bookedCents === 0 ? 'Nothing' : `Only ${formatKes(bookedCents)}`} of it is left for the order's charge of ${charge}: the rest paid another order, went back or is owed. Decide what happens to the order.`;
  }
  return isShort
    ? `${formatKes(bookedCents)} of ${charge} has come: ${difference} is missing. Decide what happens to the order.`
    : `${formatKes(bookedCents)} came for a charge of ${charge}: ${difference} too much. Decide what happens to the order.`;
}

function describeWaiting({
  cents,
  chargeCents,
  bookedCents,
  waitingCents,
  paymentStatus,
  status,
}: MoneyOfOrder): string {
  const [amount, charge] = [formatKes(cents), formatKes(chargeCents)];
  const others = waitingCents - cents;
  if (paymentStatus === 'refunded' || paymentStatus === 'paid') {
    return `It came under this order's number, but the order is ${paymentStatus} without it. Send ${amount} back, or assign it to another order.`;
  }
  if (status === 'cancelled') {
    return `It came under this order's number, but the order is cancelled. Send ${amount} back, or assign it: the order is taken up again once it is paid.`;
  }
  if (bookedCents > 0 && bookedCents + cents === chargeCents) {
    return `With the ${formatKes(bookedCents)} that the order has, it makes the whole charge of ${charge}. Assign it, and the order is paid.`;
  }
  if (others > 0 && bookedCents + waitingCents === chargeCents) {
    return `With the other ${formatKes(others)} that came under this order's number, it makes the whole charge of ${charge}. Assign each of them, and the order is paid.`;
  }
  const missing = chargeCents - bookedCents - waitingCents;
  return missing > 0
    ? `${amount} of ${charge} came under this order's number: ${formatKes(missing)} is missing. Assign it and wait for the rest, deliver the order as it is, or send the money back.`
    : `${formatKes(bookedCents + waitingCents)} came in parts under this order's number, ${formatKes(-missing)} more than its charge of ${charge}. Assign what belongs to it, and send the rest back.`;
}
