// A row of the reconciliation in the list and the export: the shop's side, M-PESA's side, and the action.

import { Link } from 'react-router';
import { formatKes } from '../../../../domain/money.ts';
import { Badge } from '../../../ui/badge.tsx';
import { Button } from '../../../ui/button.tsx';
import type { CsvColumn } from '../../list/export/csv.ts';
import type { Column } from '../../list/row-list.tsx';
import { formatForFile, formatTime } from '../../ui/time/dates.ts';
import type { Resolve } from '../reconciliation-queries.ts';
import type { BookRow } from './difference-texts.ts';
import {
  bookedCents,
  type Decision,
  decisionsFor,
  describeState,
  explainDecision,
  isOtherCharge,
  kinds,
  labelDecision,
} from './difference-texts.ts';

export const nameOf = ({ receipt, order_number }: BookRow): string =>
  receipt ?? `payment of ${order_number ?? ''}`;

export function KindBadge({ row, isSmall }: { row: BookRow; isSmall?: boolean }) {
  const { label, tone } = kinds[row.kind];
  return (
    <Badge tone={row.is_open || row.kind === 'matched' ? tone : 'grey'} isSmall={isSmall}>
      {label}
    </Badge>
  );
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
  /** What must be confirmed first. */
  onAsk(row: BookRow, decision: Decision): void;
}

export function differenceColumns(options: ColumnsOptions): Column<BookRow>[] {
  return [
    {
      title: 'Receipt',
      show: (row) => (
        <span className="block">
          <span className="font-semibold whitespace-nowrap">{row.receipt ?? 'Not known yet'}</span>
          <span className="block text-sm text-ink-soft tabular-nums">{formatTime(row.happened_at)}</span>
        </span>
      ),
    },
    {
      title: 'Comparison',
      show: (row) => {
        const state = describeState(row);
        return (
          <span className="flex flex-col items-start gap-1">
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
          <OurAmount row={row} />
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
          <Amount cents={row.their_cents} />
          {row.payer_name ? (
            <span className="ml-auto block max-w-52 text-sm wrap-anywhere whitespace-normal text-ink-soft">
              {row.payer_name}
            </span>
          ) : null}
          {row.their_cents !== null && row.reference ? (
            <span className="ml-auto block max-w-52 text-sm wrap-anywhere whitespace-normal text-ink-soft">
              for “{row.reference}”
            </span>
          ) : null}
        </span>
      ),
    },
    {
      title: 'Actions',
      show: (row) => (
        <span className="flex flex-wrap items-center gap-2">
          <DecisionButton row={row} {...options} />
          <DetailsButton row={row} {...options} />
        </span>
      ),
    },
  ];
}

/** On phones: both amounts and the payer's reference next to the controls. */
export function DifferenceRow({ row, options }: { row: BookRow; options: ColumnsOptions }) {
  const state = describeState(row);
  return (
    // A long decision stands below the payment, not beside it.
    <div className="flex flex-wrap items-center gap-x-2 sm:gap-x-6">
      <div className="grid min-w-48 flex-1 grid-cols-1 gap-x-6 py-1 text-sm leading-5.5 md:grid-cols-2">
        <p className="flex flex-wrap items-center gap-x-2 whitespace-nowrap">
          <span className="font-semibold">{row.receipt ?? 'Not known yet'}</span>
          <span className="text-ink-soft tabular-nums">{formatTime(row.happened_at)}</span>
        </p>
        <p className="flex flex-wrap items-center gap-x-2">
          <KindBadge row={row} isSmall />
          {state ? <span className="text-ink-soft">{state}</span> : null}
          <OrderLink row={row} />
        </p>
        <p className="flex flex-wrap gap-x-3 tabular-nums">
          {row.kind === 'matched' ? (
            formatKes(row.our_cents ?? 0)
          ) : (
            <>
              <span>
                Ours: <OurAmount row={row} />
              </span>{' '}
              <span className="whitespace-nowrap">
                M-PESA: <Amount cents={row.their_cents} />
              </span>
            </>
          )}
        </p>
        {row.payer_name || row.reference ? (
          <p className="truncate text-ink-soft">
            {row.payer_name}
            {row.reference ? ` for “${row.reference}”` : ''}
          </p>
        ) : null}
      </div>
      <div className="flex flex-wrap items-center gap-2 pb-2 sm:pb-0">
        <DecisionButton row={row} {...options} />
        <DetailsButton row={row} {...options} />
      </div>
    </div>
  );
}

type ActionProps = ColumnsOptions & { row: BookRow };

/** The likeliest decision, if there is one. */
function DecisionButton({ row, resolve, onAsk }: ActionProps) {
  const [first] = decisionsFor(row);
  if (!first || !row.is_open) return null;
  return (
    <Button
      tone={first === 'refund' || first === 'cancel_and_refund' ? 'danger' : 'leaf'}
      isBusy={resolve.deciding(row) === first}
      disabled={resolve.isPending && resolve.deciding(row) !== first}
      onClick={() => onAsk(row, first)}
      aria-haspopup={first === 'give' || explainDecision(first, row) ? 'dialog' : undefined}
      className="rows:px-4"
    >
      {labelDecision(first, row)}
      <span className="sr-only"> {nameOf(row)}</span>
    </Button>
  );
}

const DetailsButton = ({ row, onOpen }: ActionProps) => (
  <Button tone="quiet" onClick={() => onOpen(row)} aria-haspopup="dialog">
    Details<span className="sr-only"> of {nameOf(row)}</span>
  </Button>
);

const Amount = ({ cents }: { cents: number | null }) =>
  cents === null ? (
    <span className="text-ink-soft">Nothing</span>
  ) : (
    <span className="whitespace-nowrap">{formatKes(cents)}</span>
  );

/** The shop's amount; for a payment of another amount the requested one; the charge if it differs. */
function OurAmount({ row }: { row: BookRow }) {
  return (
    <>
      <Amount cents={row.our_cents} />
      {row.payment_status === 'review' ? ' requested' : ''}
      {isOtherCharge(row) ? (
        <span className="whitespace-nowrap"> (due {formatKes(row.charge_cents ?? 0)})</span>
      ) : null}
    </>
  );
}

export const exportColumns: CsvColumn<BookRow>[] = [
  { title: 'Time (Nairobi)', value: ({ happened_at }) => formatForFile(happened_at) },
  { title: 'Receipt', value: ({ receipt }) => receipt },
  { title: 'Comparison', value: (row) => kinds[row.kind].label },
  { title: 'Open', value: ({ is_open }) => (is_open ? 'yes' : 'no') },
  { title: 'State', value: describeState },
  {
    title: 'Our books (KES)',
    value: (row) => {
      const cents = bookedCents(row);
      return cents === null ? null : cents / 100;
    },
  },
  { title: 'M-PESA (KES)', value: ({ their_cents }) => (their_cents === null ? null : their_cents / 100) },
  { title: 'Order #', value: ({ order_number }) => order_number },
  {
    title: 'Owed to the customer (KES)',
    value: ({ owed_cents }) => (owed_cents ? owed_cents / 100 : null),
  },
  {
    title: 'Change sent back (KES)',
    value: ({ returned_cents }) => (returned_cents ? returned_cents / 100 : null),
  },
  {
    title: 'Charge of the order (KES)',
    value: ({ charge_cents }) => (charge_cents === null ? null : charge_cents / 100),
  },
  { title: 'Customer', value: ({ customer_name }) => customer_name },
  { title: 'Reference', value: ({ reference }) => reference },
  { title: 'Payer', value: ({ payer_name }) => payer_name },
  { title: 'Payer phone', value: ({ payer_phone }) => payer_phone },
];

/** Columns that fit on an upright page; unknown amounts are blank. */
export const printColumns: CsvColumn<BookRow>[] = [
  { title: 'Time', value: ({ happened_at }) => formatTime(happened_at) },
  { title: 'Receipt', value: ({ receipt }) => receipt ?? 'Not known yet' },
  { title: 'Order #', value: ({ order_number }) => order_number },
  { title: 'Customer', value: ({ customer_name, payer_name }) => customer_name ?? payer_name },
  {
    title: 'Our books',
    value: (row) => {
      if (row.our_cents === null) return null;
      return `${formatKes(row.our_cents)}${bookedCents(row) === null ? ' requested' : ''}`;
    },
  },
  { title: 'M-PESA', value: ({ their_cents }) => (their_cents === null ? null : formatKes(their_cents)) },
  {
    title: 'Comparison',
    value: (row) => [kinds[row.kind].label, describeState(row)].filter(Boolean).join(': '),
  },
];
