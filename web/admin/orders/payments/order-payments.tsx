// The payments of an order, its refunds and what staff decide about them.
import { useState } from 'react';
import { Link } from 'react-router';
import { chargeCents, formatKes } from '../../../../domain/money.ts';
import { nairobiDay } from '../../../../domain/nairobi-time.ts';
import { formatPhone } from '../../../../domain/people/phone.ts';
import { Badge } from '../../../ui/badge.tsx';
import { Icon } from '../../../ui/icons.tsx';
import { useMay } from '../../layout/roles/use-member.tsx';
import { openParts } from '../../print/money-to-collect.ts';
import { describeMoneyOfOrder } from '../../reconciliation/differences/order-difference.ts';
import { labelOfPayment } from '../../status/staff-labels.ts';
import { useNow } from '../../ui/time/age.tsx';
import { formatDateTime } from '../../ui/time/dates.ts';
import { Agreement } from '../agreement.tsx';
import { decisionOf, type WholeOrder } from '../order-queries.ts';
import { Part } from '../part.tsx';
import { RefundForm } from '../refunds/refund-form.tsx';
import { countedOf, isRefundable, lastRefund, type PaymentOfOrder } from '../refunds/refund-queries.ts';
import { RefundState } from '../refunds/refund-state.tsx';
import { plainFailure } from '../timeline/order-event-texts.ts';
import { CashDecisions, CashOfOrder } from './cash.tsx';
import { ChangeNotes } from './change-notes.tsx';
import { leftOf } from './change-of.ts';
import { ConfirmTillPayment } from './confirm-till-payment.tsx';
import { CreditDecisions, CreditOfCustomer } from './credit.tsx';
import { describeReview } from './describe-review.ts';
import { EndedLink } from './ended-links.tsx';
import { describePaymentLine, needsLook } from './payment-line.ts';
import { TakeBack } from './take-back.tsx';
import { WaysToPay } from './ways-to-pay.tsx';

/** The money in one line, what needs a decision, and all payments and attempts behind the line. */
export function Payments({ order }: { order: WholeOrder }) {
  const now = useNow();
  const may = useMay();
  const { text, tone, facts } = describePaymentLine(order, now);
  const needing = order.payments.filter(needsLook);
  const isNeeded = needing.length > 0;
  const [isOpen, setOpen] = useState(false);
  const line = (
    <>
      <Badge tone={tone} isSmall>
        {text}
      </Badge>
      <span className="min-w-0 text-sm wrap-anywhere tabular-nums">{facts}</span>
    </>
  );
  return (
    <Part title="Payments">
      <Parts order={order} />
      <InReview order={order} />
      <CreditOfCustomer order={order} />
      {order.payments.length === 0 ? (
        <p className="flex items-center gap-1.5">{line}</p>
      ) : (
        <details
          open={isNeeded || isOpen}
          onToggle={({ currentTarget }) => setOpen(currentTarget.open)}
          className="group"
        >
          <summary className="flex min-h-11 cursor-pointer list-none items-center gap-2 rounded-md [&::-webkit-details-marker]:hidden">
            <span className="flex min-w-0 flex-1 items-center gap-1.5">{line}</span>
            <span className="sr-only">: details</span>
            <Icon name="chevron" className="size-5 text-ink-soft group-open:rotate-180" />
          </summary>
          <ul className="mt-2 grid gap-3">
            {[...needing, ...order.payments.filter((payment) => !needing.includes(payment))].map(
              (payment) => (
                <li key={payment.id} className="border-t border-line pt-3 text-sm">
                  <PaymentDetails order={order} payment={payment} />
                </li>
              ),
            )}
          </ul>
        </details>
      )}
      {may('orders') ? (
        <>
          <EndedLink order={order} />
          <Agreement order={order} />
          <WaysToPay order={order} />
          <ConfirmTillPayment order={order} />
        </>
      ) : null}
      <CashOfOrder order={order} />
    </Part>
  );
}

function PaymentDetails({ order, payment }: { order: WholeOrder; payment: PaymentOfOrder }) {
  const state = labelOfPayment(payment.status);
  const may = useMay();
  return (
    <>
      <p className="flex flex-wrap items-center justify-between gap-2">
        <span>
          <span className="font-semibold tabular-nums">{formatKes(payment.charge_cents)}</span>{' '}
          {describeWay(payment)}
        </span>
        <span className="flex gap-1.5">
          {payment.refunded_at ? (
            <Badge tone="grey">Sent back</Badge>
          ) : payment.needs_refund && leftOf(payment) > 0 ? (
            <Badge tone="red">To be sent back</Badge>
          ) : null}
          <Badge tone={state.tone}>
            {isByHand(payment) && payment.status === 'failed' ? 'Taken back' : state.text}
          </Badge>
        </span>
      </p>
      <p className="mt-1 break-words text-ink-soft">
        {payment.receipt ? (
          <>
            Receipt <span className="font-semibold text-ink">{payment.receipt}</span> ·{' '}
          </>
        ) : null}
        {payment.status === 'review' || (payment.status === 'failed' && payment.result_code === '0')
          ? `${describeReview(payment.result_description)} · `
          : payment.status === 'failed' && !isByHand(payment)
            ? `${plainFailure(payment.result_code)} ${payment.result_code ? `(code ${payment.result_code}) ` : ''}· `
            : null}
        {formatDateTime(payment.completed_at ?? payment.created_at)}
      </p>
      {payment.note ? <p className="mt-1 wrap-anywhere">“{payment.note}”</p> : null}
      {may('refunds') ? <RefundOf order={order} payment={payment} /> : null}
      <CashDecisions order={order} payment={payment} />
      <CreditDecisions order={order} payment={payment} />
      {may('reconciliation') ? <TakeBack order={order} payment={payment} /> : null}
      {may('refunds') ? <ChangeNotes order={order} payment={payment} /> : null}
    </>
  );
}

/** Noted by staff, without M-PESA. */
const isByHand = ({ method }: PaymentOfOrder): boolean => method === 'cash' || method === 'credit';

function describeWay({ method, phone, received_from }: PaymentOfOrder): string {
  if (method === 'credit') return 'from credit';
  if (method === 'cash') return received_from ? `in cash, from ${received_from}` : 'in cash';
  return `by M-PESA, ${method === 'till' ? 'to the till' : formatPhone(phone)}`;
}

/** Payments for this order that are less than its charge: they wait in the reconciliation. */
function Parts({ order }: { order: WholeOrder }) {
  const open = openParts(order.parts);
  const may = useMay();
  if (open.length === 0) return null;
  return (
    <ul className="mb-3 grid gap-2 rounded-md border border-line bg-paper-deep px-3 py-2 text-sm">
      {open.map(({ receipt, received_cents, transacted_at }) => (
        <li key={receipt}>
          {describeMoneyOfOrder({
            cents: received_cents,
            isAssigned: false,
            chargeCents: chargeCents(order.total_amount),
            paymentStatus: order.payment_status,
            status: order.status,
            bookedCents: countedOf(order),
            waitingCents: open.reduce((cents, part) => cents + part.received_cents, 0),
          })}{' '}
          {may('reconciliation') ? (
            <Link
              to={`/admin/reconciliation?day=${nairobiDay(Date.parse(transacted_at))}&view=${receipt}`}
              className="tap font-semibold underline"
            >
              Decide about {receipt}
            </Link>
          ) : (
            'An owner decides about it.'
          )}
        </li>
      ))}
    </ul>
  );
}

/** Payments of another amount than the charge: staff resolve them in the reconciliation. */
function InReview({ order }: { order: WholeOrder }) {
  const reviewed = order.payments.find(({ status }) => status === 'review');
  const may = useMay();
  if (!reviewed) return null;
  return (
    <p className="mb-3 rounded-md border border-danger/40 bg-danger-soft px-3 py-2 text-sm">
      The customer was asked not to pay again while you check this payment.{' '}
      {may('reconciliation') ? (
        <Link
          to={`/admin/reconciliation?day=${nairobiDay(Date.parse(reviewed.created_at))}`}
          className="tap font-semibold underline"
        >
          Decide in Reconciliation
        </Link>
      ) : (
        'An owner decides about it.'
      )}
    </p>
  );
}

/** Payments in addition to the order's own payment, which is shown above. */
function RefundOf({ order, payment }: { order: WholeOrder; payment: PaymentOfOrder }) {
  const refund = lastRefund(payment.refunds);
  const isHere = payment.needs_refund || decisionOf(order) === null;
  const isOffered = isRefundable(order, payment) && leftOf(payment) > 0;
  if (!isHere || (!refund && !isOffered)) return null;
  return (
    <div className="mt-2 grid gap-2">
      {refund ? <RefundState refund={refund} order={order} /> : null}
      {isOffered && !isByHand(payment) ? <RefundForm order={order} payment={payment} /> : null}
    </div>
  );
}
