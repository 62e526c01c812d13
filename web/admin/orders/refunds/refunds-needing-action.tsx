// Refunds that need staff, shown above the orders whatever the filters are.

import { useRef } from 'react';
import { Link, useSearchParams } from 'react-router';
import { formatKes } from '../../../../domain/money.ts';
import { useNameOf } from '../../ui/staff-name.tsx';
import type { useRefundsNeedingAction } from './refund-queries.ts';
import { ApproveOrWithdraw, ResolveDoubleRefund } from './refund-state.tsx';

interface RefundsNeedingActionProps {
  /** Undefined until loaded. */
  waiting: ReturnType<typeof useRefundsNeedingAction>;
  /** The screen above which an order opens. */
  screen: '/admin/orders' | '/admin/today';
}

export function RefundsNeedingAction({ waiting, screen }: RefundsNeedingActionProps) {
  const [parameters] = useSearchParams();
  const rows = useStableRows(waiting);
  const nameOf = useNameOf();
  if (!waiting || rows.length === 0) return null;
  return (
    <section
      aria-label="Refunds that wait for you"
      className="grid gap-2 rounded-md border border-ember-300 bg-ember-50 px-4 py-3 text-sm"
    >
      <p className="font-bold">
        {waiting.length === 0
          ? 'No refund needs a look any more'
          : `${waiting.length === 1 ? 'One refund needs' : `${waiting.length} refunds need`} a look`}
      </p>
      <ul className="grid gap-3">
        {rows.map(({ row: refund, isDone }) => {
          const order = refund.payment?.order;
          return (
            <li key={refund.id} className="flex min-h-11 flex-wrap items-center gap-x-4 gap-y-2">
              <span>
                <span className="font-semibold tabular-nums">{formatKes(refund.refund_cents)}</span> of{' '}
                {order ? (
                  <Link
                    to={{ pathname: `${screen}/${order.id}`, search: parameters.toString() }}
                    state={{ isFromList: true }}
                    preventScrollReset
                    className="tap font-semibold underline"
                  >
                    {order.order_number}
                  </Link>
                ) : (
                  `receipt ${refund.receipt}`
                )}
                {isDone
                  ? ': dealt with'
                  : refund.sent_twice_at
                    ? ' was sent back twice'
                    : refund.status === 'requested'
                      ? `, requested by ${nameOf(refund.requested_by_email ?? 'a former colleague')}: “${refund.reason}”`
                      : ": M-PESA hasn't said whether it went back"}
              </span>
              {refund.sent_twice_at && !isDone ? <ResolveDoubleRefund refund={refund} /> : null}
              {refund.status === 'requested' && !isDone ? (
                <ApproveOrWithdraw refund={refund} order={order ?? null} />
              ) : null}
            </li>
          );
        })}
      </ul>
    </section>
  );
}

/**
 * The rows in the order in which this screen showed them first: nothing moves under a finger when another one is added, or is dealt
 * with.
 */
function useStableRows<Row extends { id: string }>(rows: readonly Row[] | undefined) {
  const shown = useRef<{ row: Row; isDone: boolean }[]>([]);
  if (rows) {
    const known = new Set(shown.current.map(({ row }) => row.id));
    shown.current = [
      ...shown.current.map(({ row }) => {
        const now = rows.find(({ id }) => id === row.id);
        return { row: now ?? row, isDone: now === undefined };
      }),
      ...rows.filter(({ id }) => !known.has(id)).map((row) => ({ row, isDone: false })),
    ];
  }
  return shown.current;
}
