// A row of the reconciliation in the list and in the exported file: our side, M-PESA's side, and what to do.

import { Link } from 'react-router';
import { formatKes } from '../../../domain/money.ts';
import { Badge } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { formatTime } from '../dates.ts';
import type { CsvColumn } from '../list/csv.ts';
import type { Column } from '../list/row-list.tsx';
import type { BookRow } from './difference-words.ts';
import {
  type Decision,
  decisionsFor,
  decisionWords,
  describeState,
  kindOf,
  kinds,
} from './difference-words.ts';
import type { Resolve } from './reconciliation-queries.ts';

export const nameOf = ({ receipt, order_number }: BookRow): string =>
  receipt ?? `payment of ${order_number ?? ''}`;

export function KindBadge({ row }: { row: BookRow }) {
  const { label, tone } = kinds[kindOf(row)];
  return <Badge tone={row.is_open || row.kind === 'matched' ? tone : 'grey'}>{label}</Badge>;
}

export function OrderLink({ row }: { row: BookRow }) {
  if (!row.order_id) return null;
  return (
    <Link to={`/admin/orders/${row.order_id}`} className="tap font-semibold underline">
      {row.order_number}
    </Link>
  );
}

interface ColumnsOptions {
  resolve: Resolve;
  onOpen(row: BookRow): void;
  /** What is to be confirmed first. */
  onAsk(row: BookRow, decision: Decision): void;
}

export function differenceColumns({ resolve, onOpen, onAsk }: ColumnsOptions): Column<BookRow>[] {
  return [
    {
      title: 'Receipt',
      card: 'heading',
      show: (row) => (
        <span className="block">
          <span className="font-semibold break-all">{row.receipt ?? 'Not known yet'}</span>
          <span className="block text-sm text-ink-soft tabular-nums">{formatTime(row.happened_at)}</span>
        </span>
      ),
    },
    {
      title: 'Comparison',
      card: 'corner',
      show: (row) => {
        const state = describeState(row);
        return (
          <span className="flex flex-col items-end gap-1 text-right table:items-start table:text-left">
            <span className="whitespace-nowrap">
              <KindBadge row={row} />
            </span>
            {state ? <span className="max-w-44 text-sm text-ink-soft">{state}</span> : null}
          </span>
        );
      },
    },
    {
      title: 'Our books',
      isNumber: true,
      show: (row) => (
        <span className="block">
          {row.our_cents === null ? (
            <span className="text-ink-soft">Nothing</span>
          ) : (
            <span className={row.payment_status === 'review' ? 'text-ink-soft' : ''}>
              {formatKes(row.our_cents)}
              {row.payment_status === 'review' ? ' asked for' : ''}
            </span>
          )}
          {row.order_id ? (
            <span className="block">
              <OrderLink row={row} />
            </span>
          ) : null}
        </span>
      ),
    },
    {
      title: 'M-PESA',
      isNumber: true,
      show: (row) => (
        <span className="block">
          {row.their_cents === null ? (
            <span className="text-ink-soft">Nothing</span>
          ) : (
            formatKes(row.their_cents)
          )}
          {row.payer_name ? (
            <span className="ml-auto block max-w-52 text-sm wrap-anywhere whitespace-normal text-ink-soft">
              {row.payer_name}
            </span>
          ) : null}
          {row.their_cents !== null && row.reference ? (
            <span className="ml-auto block max-w-52 text-sm break-all whitespace-normal text-ink-soft">
              for “{row.reference}”
            </span>
          ) : null}
        </span>
      ),
    },
    {
      title: 'Actions',
      card: 'actions',
      show: (row) => {
        const [first] = decisionsFor(row);
        const isOnlyOne = first && first !== 'reopen';
        return (
          <span className="flex flex-wrap items-center justify-end gap-2 table:justify-start">
            {isOnlyOne ? (
              <Button
                tone={first === 'refund' ? 'danger' : 'leaf'}
                isBusy={resolve.deciding(row) === first}
                disabled={resolve.isPending && resolve.deciding(row) !== first}
                onClick={() => onAsk(row, first)}
                aria-haspopup={first === 'accept' || first === 'not_an_order' ? undefined : 'dialog'}
              >
                {decisionWords[first]}
                <span className="sr-only"> {nameOf(row)}</span>
              </Button>
            ) : null}
            <Button tone="quiet" onClick={() => onOpen(row)} aria-haspopup="dialog">
              Details<span className="sr-only"> of {nameOf(row)}</span>
            </Button>
          </span>
        );
      },
    },
  ];
}

export const exportColumns: CsvColumn<BookRow>[] = [
  { title: 'Time', value: ({ happened_at }) => happened_at },
  { title: 'Receipt', value: ({ receipt }) => receipt },
  { title: 'Comparison', value: (row) => kinds[kindOf(row)].label },
  { title: 'Open', value: ({ is_open }) => (is_open ? 'yes' : 'no') },
  { title: 'State', value: describeState },
  { title: 'Our books (KES)', value: ({ our_cents }) => (our_cents === null ? null : our_cents / 100) },
  { title: 'M-PESA (KES)', value: ({ their_cents }) => (their_cents === null ? null : their_cents / 100) },
  { title: 'Order #', value: ({ order_number }) => order_number },
  { title: 'Customer', value: ({ customer_name }) => customer_name },
  { title: 'Reference', value: ({ reference }) => reference },
  { title: 'Payer', value: ({ payer_name }) => payer_name },
  { title: 'Payer phone', value: ({ payer_phone }) => payer_phone },
];
