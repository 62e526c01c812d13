// Decisions about money in "Needs attention": refunds to approve, and orders with money to decide about.
import { Link } from 'react-router';
import { formatCount } from '../../../domain/count.ts';
import { buttonStyle } from '../../ui/button.tsx';
import { fromThisPage } from '../dialogs/use-dialog-url-close.ts';
import { useMay, useMember } from '../layout/roles/use-member.tsx';
import { prepareOrderDialog } from '../orders/list/order-columns.tsx';
import { useOrdersNeedingReview } from '../orders/order-queries.ts';
import { whyDecide } from '../orders/payments/why-decide.ts';
import { useRefundsNeedingAction } from '../orders/refunds/refund-queries.ts';
import { usePart } from '../ui/use-part.ts';
import { CardDrinks } from './order-card.tsx';

const loadRefunds = () => import('../orders/refunds/refunds-needing-action.tsx');

export function useMoneyDecisions() {
  const { id } = useMember();
  const may = useMay();
  const reviews = useOrdersNeedingReview();
  // A member does not approve an own request, and M-PESA is asked for unknown results without staff.
  const refunds = useRefundsNeedingAction()?.filter(
    ({ status, requested_by, sent_twice_at }) =>
      sent_twice_at !== null || (status === 'requested' && requested_by !== id && may('approvals')),
  );
  const part = usePart(loadRefunds, (refunds?.length ?? 0) > 0);
  return {
    reviews,
    refunds: part ? <part.RefundsNeedingAction waiting={refunds} screen="/admin/today" /> : null,
    count: (reviews?.count ?? 0) + (refunds?.length ?? 0),
    // Refunds stay on the screen when they are dealt with, so that nothing moves under a finger.
    isShown: (reviews?.count ?? 0) > 0 || part !== null,
  };
}

/** As cards of the list that contains them. */
export function ReviewCards({ reviews }: Pick<ReturnType<typeof useMoneyDecisions>, 'reviews'>) {
  const may = useMay();
  const { orders = [], count = 0 } = reviews ?? {};
  const more = count - orders.length;
  return (
    <>
      {orders.map((order) => (
        <li
          key={order.id}
          className="grid grid-cols-[minmax(0,1fr)] gap-1.5 rounded-lg border border-l-4 border-line border-l-danger bg-card p-3 shadow-sm"
        >
          <CardDrinks order={order} />
          <p className="text-sm text-ink-soft">
            <span className="font-semibold text-ink">{order.order_number}</span> ·{' '}
            <bdi>{order.customer_name.split(/\s/)[0]}</bdi>
          </p>
          <p className="text-sm font-semibold text-danger">{whyDecide(order)}</p>
          <Link
            to={`/admin/today/${order.id}`}
            state={fromThisPage}
            preventScrollReset
            aria-haspopup="dialog"
            onPointerEnter={prepareOrderDialog}
            onFocus={prepareOrderDialog}
            className={buttonStyle('dusk')}
          >
            {order.payment_status !== 'unpaid' || may('reconciliation') ? (
              <>
                Decide<span className="sr-only"> about {order.order_number}</span>
              </>
            ) : (
              <>
                View<span className="sr-only"> {order.order_number}</span>
              </>
            )}
          </Link>
        </li>
      ))}
      {more > 0 ? (
        <li className="self-center text-sm">
          <Link to="/admin/orders?payment=to_decide" className="tap font-semibold underline">
            {more === 1 ? 'One more order' : `${formatCount(more)} more orders`} to decide about
          </Link>
        </li>
      ) : null}
    </>
  );
}
