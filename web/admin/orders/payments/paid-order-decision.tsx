// Resolution of a payment that needs review: deliver the order after all, or refund it.
import { useState } from 'react';
import { chargeCents, formatKes } from '../../../../domain/money.ts';
import { Button } from '../../../ui/button.tsx';
import { dataOf } from '../../data/table-answer.ts';
import { useSave } from '../../data/use-save.ts';
import { useMember } from '../../layout/roles/use-member.tsx';
import {
  explainReviewDecision,
  labelReviewDecision,
  type ReviewDecision,
  reviewDecisionsFor,
} from '../../reconciliation/differences/order-difference.ts';
import { isOpenRefund } from '../../status/states.ts';
import { decisionOf, type WholeOrder } from '../order-queries.ts';
import { RefundForm } from '../refunds/refund-form.tsx';
import { countedOf, isRefundable, lastRefund, moneyOf } from '../refunds/refund-queries.ts';
import { RefundState } from '../refunds/refund-state.tsx';
import { CashDecisions } from './cash.tsx';
import { leftOf } from './change-of.ts';
import { CreditDecisions } from './credit.tsx';
import { whyDecide } from './why-decide.ts';

export function useOrderDecision(order: { id: string }) {
  const { tables } = useMember().staff;
  const save = useSave({
    /** `seenCents`: what came for the order, as seen; null for an order without a recorded payment. */
    write: async ({
      decision,
      seenCents,
    }: {
      decision: ReviewDecision | 'refunded';
      seenCents: number | null;
    }) => {
      dataOf(
        decision === 'refunded' || seenCents === null
          ? await tables.rpc('resolve_paid_order', { order_id: order.id, resolution: decision })
          : await tables.rpc('resolve_review', { order_id: order.id, decision, seen_cents: seenCents }),
      );
    },
    success: (_, { decision }) =>
      decision === 'refunded'
        ? 'The refund is noted with the order'
        : decision === 'cancel_and_refund'
          ? 'The order is cancelled'
          : 'The order will be delivered',
    failure: 'Failed to save your decision',
    isUnsafeToRepeat: true,
    refresh: ['orders', 'deliveries', 'products', 'dashboard'],
  });
  return {
    isPending: save.isPending,
    decide: save.mutate,
    /** The order's status after the decision that is being saved. */
    savingStatus: !save.isPending
      ? undefined
      : save.variables.decision === 'refunded' || save.variables.decision === 'cancel_and_refund'
        ? ('cancelled' as const)
        : ('processing' as const),
  };
}

interface PaidOrderDecisionProps {
  order: WholeOrder;
  save: ReturnType<typeof useOrderDecision>;
}

export function PaidOrderDecision({ order, save }: PaidOrderDecisionProps) {
  const [isConfirming, setConfirming] = useState(false);
  const decision = decisionOf(order);
  if (!decision) return null;
  const { own, paid, came, left } = moneyOf(order);
  const isPartlyRefunded = left > 0 && left < came;
  const counted = countedOf(order);
  const hasSomethingLeft = own.some((payment) => leftOf(payment) > 0);
  const amount = formatKes(paid ? came : chargeCents(order.total_amount));
  const refund = paid ? lastRefund(paid.refunds) : null;
  const isGoingBack = refund !== null && isOpenRefund(refund.status);
  const charge = chargeCents(order.total_amount);
  const advice = isPartlyRefunded
    ? `, so this order can't be delivered any more. Send the other ${formatKes(left)} back too.`
    : decision === 'refund is due' && paid?.has_refunded_source
      ? '. The rest of the money that this credit came from was sent back, so it cannot be owed again. Give it back in cash, or by M-PESA with its receipt; or set another status to deliver it after all.'
      : decision === 'refund is due'
        ? '. Send the money back to the customer, or set another status to deliver it after all.'
        : paid && !hasSomethingLeft
          ? '. Agree on it with the customer and deliver, or cancel the order.'
          : paid && counted !== charge
            ? '. Agree on it with the customer and deliver, or send the money back.'
            : '. Add to the stock and deliver, or send the money back.';
  return (
    <section
      aria-label="Decision"
      className="grid gap-3 rounded-md border border-danger/40 bg-danger-soft px-4 py-3 text-danger"
    >
      <div>
        <p className="font-bold">
          {isGoingBack
            ? refund.status === 'requested'
              ? 'Refund requested'
              : 'Refund under way'
            : decision === 'units are gone'
              ? 'Paid, needs review'
              : 'Refund due'}
        </p>
        {isGoingBack ? null : (
          <p className="text-sm">
            {whyDecide(order)}
            {advice}
          </p>
        )}
      </div>
      {refund ? <RefundState refund={refund} order={order} /> : null}
      {paid ? (
        isGoingBack ? null : (
          <div className="grid gap-3">
            {decision === 'units are gone' && !isPartlyRefunded ? (
              <DeliveryDecisions
                order={order}
                amounts={{ receivedCents: counted, chargeCents: charge }}
                hasSomethingLeft={hasSomethingLeft}
                save={save}
              />
            ) : null}
            {!isRefundable(order, paid) || leftOf(paid) === 0 ? null : paid.method === 'cash' ? (
              <CashDecisions order={order} payment={paid} />
            ) : paid.method === 'credit' && paid.has_refunded_source ? (
              <div className="flex flex-wrap items-end gap-3">
                <CashDecisions order={order} payment={paid} />
                <RefundForm order={order} payment={paid} />
              </div>
            ) : paid.method === 'credit' ? (
              <CreditDecisions order={order} payment={paid} />
            ) : (
              <RefundForm order={order} payment={paid} />
            )}
          </div>
        )
      ) : isConfirming ? (
        <div className="flex flex-wrap items-center gap-3">
          <p className="basis-full text-sm font-semibold">
            The shop moves no money by itself. Have you sent {amount} back to the customer?
          </p>
          <Button
            tone="danger"
            isBusy={save.isPending}
            onClick={() =>
              save.decide(
                { decision: 'refunded', seenCents: null },
                { onSuccess: () => setConfirming(false) },
              )
            }
          >
            Yes, it was sent back
          </Button>
          <Button tone="quiet" onClick={() => setConfirming(false)}>
            Not yet
          </Button>
        </div>
      ) : (
        <div className="flex flex-wrap gap-3">
          {decision === 'units are gone' ? (
            <Button
              isBusy={save.isPending}
              onClick={() => save.decide({ decision: 'deliver', seenCents: null })}
            >
              Deliver as paid
            </Button>
          ) : null}
          <Button tone="quiet" onClick={() => setConfirming(true)}>
            The money was sent back
          </Button>
        </div>
      )}
    </section>
  );
}

interface DeliveryDecisionsProps {
  order: WholeOrder;
  amounts: { receivedCents: number; chargeCents: number };
  /** Otherwise there is nothing to refund: the order is only cancelled. */
  hasSomethingLeft: boolean;
  save: PaidOrderDecisionProps['save'];
}

/** The decisions that deliver the order, each named by what happens to what is left over or missing. */
function DeliveryDecisions({ order, amounts, hasSomethingLeft, save }: DeliveryDecisionsProps) {
  const [confirming, setConfirming] = useState<ReviewDecision | null>(null);
  const decisions = reviewDecisionsFor(amounts).filter(
    (decision) => decision !== 'cancel_and_refund' || !hasSomethingLeft,
  );
  const facts = { ...amounts, orderNumber: order.order_number, customerName: order.customer_name };
  return (
    <div className="grid gap-3">
      {confirming ? (
        <p role="alert" className="text-sm font-semibold">
          {explainReviewDecision(confirming, facts)}
        </p>
      ) : null}
      <div className="flex flex-wrap gap-3">
        {decisions
          .filter((decision) => confirming === null || decision === confirming)
          .map((decision) => (
            <Button
              key={decision}
              tone={decision === 'cancel_and_refund' ? 'danger' : 'leaf'}
              isBusy={save.isPending}
              onClick={() =>
                confirming
                  ? save.decide(
                      { decision, seenCents: amounts.receivedCents },
                      { onSettled: () => setConfirming(null) },
                    )
                  : setConfirming(decision)
              }
            >
              {labelReviewDecision(decision, amounts)}
            </Button>
          ))}
        {confirming ? (
          <Button tone="quiet" disabled={save.isPending} onClick={() => setConfirming(null)}>
            Not now
          </Button>
        ) : null}
      </div>
    </div>
  );
}
