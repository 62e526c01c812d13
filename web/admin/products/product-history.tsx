// Every change of a product's stock and price: what caused it, who made it, and when.

import { useInfiniteQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'react-router';
import { formatCount } from '../../../domain/count.ts';
import { formatKes } from '../../../domain/money.ts';
import type { StockChangeCause } from '../../../supabase/types.ts';
import { Button } from '../../ui/button.tsx';
import { dataOf } from '../data/table-answer.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import { NameInHistory } from '../ui/staff-name.tsx';
import { formatDateTime } from '../ui/time/dates.ts';

const pageSize = 50;

interface Position {
  /** The smallest id so far of each kind; null for none. */
  stock: number | null;
  price: number | null;
}

function useProductHistory(productId: string, isNeeded: boolean) {
  const { tables } = useMember().staff;
  return useInfiniteQuery({
    queryKey: ['products', 'history', productId],
    queryFn: async ({ pageParam, signal }) =>
      dataOf(
        await tables
          .rpc('product_history', {
            product_id: productId,
            before_stock_change: pageParam.stock,
            before_price_change: pageParam.price,
            page_size: pageSize,
          })
          .abortSignal(signal),
      ),
    initialPageParam: { stock: null, price: null } as Position,
    getNextPageParam(page, _, position) {
      if (page.length < pageSize) return undefined;
      const last = (kind: keyof Position) =>
        page.filter((change) => change.kind === kind).at(-1)?.id ?? position[kind];
      return { stock: last('stock'), price: last('price') };
    },
    select: ({ pages }) => pages.flat(),
    enabled: isNeeded,
    staleTime: 0,
  });
}

type Change = NonNullable<ReturnType<typeof useProductHistory>['data']>[number];

const causes: Record<StockChangeCause, string> = {
  edited: 'Edited',
  ordered: 'Ordered',
  reservation_ended: 'Reservation ended',
  order_changed: 'Order changed by its customer',
  cancelled: 'Order cancelled',
  refunded: 'Order refunded',
  under_review: 'Payment under review',
};

/** A cause of a later version of the database is shown as it is. */
const describeCause = ({ kind, cause }: Change): string =>
  kind === 'price' ? 'Price' : (causes[cause as StockChangeCause] ?? cause);

export function ProductHistory({ productId }: { productId: string }) {
  const [isOpen, setOpen] = useState(false);
  const history = useProductHistory(productId, isOpen);
  return (
    <details className="text-sm" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary className="tap cursor-pointer font-semibold underline">Stock and price history</summary>
      {history.data ? (
        <Changes changes={history.data} />
      ) : history.error ? (
        <p role="alert" className="mt-2 flex flex-wrap items-center gap-3 text-danger">
          The history could not be loaded.
          <Button tone="quiet" onClick={() => void history.refetch()}>
            Try again
          </Button>
        </p>
      ) : (
        <p role="status" className="mt-2 text-ink-soft">
          Loading the history...
        </p>
      )}
      {history.hasNextPage ? (
        <Button
          tone="quiet"
          className="mt-2"
          isBusy={history.isFetchingNextPage}
          onClick={() => void history.fetchNextPage()}
        >
          Show older changes
        </Button>
      ) : null}
    </details>
  );
}

function Changes({ changes }: { changes: readonly Change[] }) {
  if (changes.length === 0) {
    return <p className="mt-2 text-ink-soft">Neither the stock nor the price has changed yet.</p>;
  }
  return (
    <ul aria-label="Stock and price history" className="mt-2 divide-y divide-line">
      {changes.map((change) => (
        <li
          key={`${change.kind} ${change.id}`}
          className="grid grid-cols-[minmax(0,1fr)_auto] gap-x-4 py-1.5 leading-5.5"
        >
          <span className="min-w-0 wrap-anywhere">
            <span className="font-semibold">{describeCause(change)}</span>
            {change.reason ? `: ${change.reason}` : null}
          </span>
          <Figures {...change} />
          <span className="min-w-0 text-ink-soft wrap-anywhere">
            {change.order_id ? (
              <>
                <Link to={`/admin/orders/${change.order_id}`} className="tap underline">
                  {change.order_number ?? 'Order'}
                </Link>
                {change.changed_by_email ? ', ' : ''}
                <NameInHistory email={change.changed_by_email} otherwise="" />
              </>
            ) : (
              <NameInHistory email={change.changed_by_email} otherwise="The shop itself" />
            )}
          </span>
          <time dateTime={change.changed_at} className="text-right text-ink-soft">
            {formatDateTime(change.changed_at)}
          </time>
        </li>
      ))}
    </ul>
  );
}

function Figures({ kind, from_value, to_value }: Change) {
  if (kind === 'price') {
    return (
      <span className="text-right tabular-nums">
        {formatKes(from_value)} to <b>{formatKes(to_value)}</b>
      </span>
    );
  }
  const by = to_value - from_value;
  return (
    <span className="text-right tabular-nums">
      <span className={by < 0 ? 'text-ink-soft' : 'text-leaf-700'}>
        {by < 0 ? '−' : '+'}
        {formatCount(Math.abs(by))}
      </span>
      <span className="ml-3">
        {formatCount(from_value)} to <b>{formatCount(to_value)}</b>
      </span>
    </span>
  );
}
