// What the button "To decide" shows above the orders.
import { Link, useSearchParams } from 'react-router';
import { formatCount } from '../../../domain/count.ts';
import type { useOrdersNeedingReview } from './order-queries.ts';

export { RefundsNeedingAction } from './refunds/refunds-needing-action.tsx';

export function OrdersNeedingReview({
  orders,
  count,
}: NonNullable<ReturnType<typeof useOrdersNeedingReview>>) {
  const [parameters] = useSearchParams();
  return (
    <div
      role="status"
      className="flex flex-wrap items-center gap-x-4 rounded-md border border-danger/40 bg-danger-soft px-4 py-2 text-sm text-danger"
    >
      <p className="py-1 font-bold">
        The money of {count === 1 ? 'one order' : `${formatCount(count)} orders`} needs your decision
      </p>
      <ul className="flex flex-wrap gap-x-4 gap-y-1">
        {orders.map(({ id, order_number }) => (
          <li key={id}>
            <Link
              to={{ pathname: `/admin/orders/${id}`, search: parameters.toString() }}
              state={{ isFromList: true }}
              preventScrollReset
              className="tap font-semibold text-danger underline"
            >
              {order_number}
            </Link>
          </li>
        ))}
        {count > orders.length ? (
          <li className="py-1">and {formatCount(count - orders.length)} more</li>
        ) : null}
      </ul>
    </div>
  );
}
