// An order that money may be for: who ordered what, and what speaks for it.
import { formatKes } from '../../../../domain/money.ts';
import { formatPhone } from '../../../../domain/people/phone.ts';
import { Badge, type BadgeTone } from '../../../ui/badge.tsx';
import { Button } from '../../../ui/button.tsx';
import { statusLabel } from '../../status/status-badge.tsx';
import { formatDateTime } from '../../ui/time/dates.ts';
import type { Candidate } from '../reconciliation-queries.ts';
import type { BookRow } from './difference-texts.ts';

interface OrderCandidateProps {
  order: Candidate;
  /** The money. */
  row: BookRow;
  isChosen: boolean;
  isBusy: boolean;
  isDisabled: boolean;
  onChoose(isChosen: boolean): void;
  onAssign(): void;
}

export function OrderCandidate({
  order,
  row,
  isChosen,
  isBusy,
  isDisabled,
  onChoose,
  onAssign,
}: OrderCandidateProps) {
  const amount = row.their_cents ?? 0;
  return (
    <li
      className={`flex flex-wrap items-start justify-between gap-x-4 gap-y-2 rounded-md border bg-card px-4 py-2.5 ${order.is_certain ? 'border-leaf-600' : 'border-line'}`}
    >
      <div className="grid min-w-0 gap-1 text-sm wrap-anywhere">
        <p>
          <span className="font-semibold">{order.order_number}</span> <bdi>{order.customer_name}</bdi>{' '}
          <CustomerPhone order={order} payerPhone={row.payer_phone} />
        </p>
        {order.items ? <p>{order.items}</p> : null}
        <p className="text-ink-soft">
          {formatKes(order.charge_cents)}, {statusLabel(order.payment_status)}, {statusLabel(order.status)},{' '}
          {formatDateTime(order.created_at)}
        </p>
        <p className="flex flex-wrap gap-1.5">
          {hintsOf(order).map(([words, tone]) => (
            <Badge key={words} tone={tone} isSmall>
              {words}
            </Badge>
          ))}
        </p>
        {order.is_certain ? (
          <p className="font-semibold text-leaf-700">
            Certain: no other unpaid order has this amount and a phone with these digits.
          </p>
        ) : null}
      </div>
      {isChosen ? (
        <div className="grid basis-full gap-3 border-t border-line pt-3">
          <p className="text-sm font-semibold">
            {consequence(order, amount)} You can take it back until the order leaves the shop.
          </p>
          <div className="flex flex-wrap gap-3">
            <Button isBusy={isBusy} onClick={onAssign}>
              Assign {formatKes(amount)} to {order.order_number}
            </Button>
            <Button tone="quiet" disabled={isDisabled} onClick={() => onChoose(false)}>
              Not this one
            </Button>
          </div>
        </div>
      ) : (
        <Button
          tone={order.is_certain ? 'leaf' : 'quiet'}
          disabled={isDisabled}
          onClick={() => onChoose(true)}
        >
          Choose<span className="sr-only"> {order.order_number}</span>
        </Button>
      )}
    </li>
  );
}

/** What speaks for an order, and what against it. */
export function hintsOf(order: Candidate): [words: string, tone: BadgeTone][] {
  const hints: [string, BadgeTone][] = [];
  if (order.is_named) hints.push(['Named by the payer', 'green']);
  if (order.lacks_receipt) hints.push(['Its prompt lacks a receipt', 'green']);
  if (order.phone_match === 'whole') hints.push(['Same phone', 'green']);
  if (order.phone_match === 'digits') hints.push(['Phone digits match', 'green']);
  if (order.phone_match === 'differs') hints.push(['Another phone', 'grey']);
  if (order.shares_name) hints.push(['Same name', 'green']);
  if (order.fits_amount) hints.push(['Same amount', 'blue']);
  else hints.push(['Another amount', 'orange']);
  return hints;
}

/**
 * The last digits of a customer's phone that the payer's phone shows, too.
 * @param payerPhone as M-PESA shows it, such as `2547*****678`
 * @returns their number; 0 if none match
 */
export function matchingEnd(
  { phone_match }: Pick<Candidate, 'phone_match'>,
  payerPhone: string | null,
): number {
  if (phone_match === 'whole') return 9;
  if (phone_match !== 'digits') return 0;
  const digits = /[0-9 ()-]{1,40}$/.exec((payerPhone ?? '').slice(-40))?.[0].replace(/[^0-9]/g, '') ?? '';
  return Math.min(digits.length, 9);
}

/** The customer's phone; the digits at its end that the payer's phone shows, too, are marked. */
function CustomerPhone({ order, payerPhone }: { order: Candidate; payerPhone: string | null }) {
  const phone = formatPhone(order.customer_phone);
  const end = matchingEnd(order, payerPhone);
  if (end === 0) return <span className="tabular-nums">{phone}</span>;
  let at = phone.length;
  for (let left = end; left > 0 && at > 0; ) {
    at -= 1;
    if (/[0-9]/.test(phone.charAt(at))) left -= 1;
  }
  return (
    <span className="tabular-nums">
      {phone.slice(0, at)}
      <mark className="rounded-xs bg-leaf-100 font-bold text-leaf-800">{phone.slice(at)}</mark>
    </span>
  );
}

function consequence({ charge_cents, payment_status, lacks_receipt }: Candidate, amount: number): string {
  if (lacks_receipt && payment_status !== 'unpaid') {
    return 'This order was paid by a prompt without a receipt: this becomes its receipt, and nothing is sent back.';
  }
  if (payment_status === 'needs_review' && amount < charge_cents) {
    return 'The order is paid once its payments add up to its charge; any surplus is flagged for a refund.';
  }
  if (payment_status !== 'unpaid') {
    return 'This order is paid already: more money is flagged for a refund.';
  }
  return amount === charge_cents
    ? 'The order becomes paid, and the customer gets a message.'
    : "The amount differs from the order's charge: the order will need your review.";
}
