// What the shop kept for its customers: owed, used for other orders, and given back.

import { useQuery } from '@tanstack/react-query';
import { Link } from 'react-router';
import { formatCount } from '../../../../domain/count.ts';
import { formatKes } from '../../../../domain/money.ts';
import { formatPhone } from '../../../../domain/people/phone.ts';
import type { Database } from '../../../../supabase/types.ts';
import { Badge } from '../../../ui/badge.tsx';
import { Button } from '../../../ui/button.tsx';
import { dataOf } from '../../data/table-answer.ts';
import { useMay, useMember } from '../../layout/roles/use-member.tsx';
import { describeStaffPage } from '../../layout/staff-page.ts';
import type { CsvColumn } from '../../list/export/csv.ts';
import { ExportButton } from '../../list/export/export-button.tsx';
import { FilterSelect } from '../../list/list-toolbar.tsx';
import { phoneCell } from '../../list/phone-cell.ts';
import { type Column, ListFrame, RowList } from '../../list/row-list.tsx';
import { useListFilters } from '../../list/use-list-filters.ts';
import { type ReadPage, useRows } from '../../list/use-rows.ts';
import { UpLink } from '../../ui/page-heading.tsx';
import { formatDateTime, formatForFile } from '../../ui/time/dates.ts';
import type { Route } from './+types/kept-page.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Kept for customers');

type Kept = Database['public']['CompositeTypes']['kept_money'];
type KeptRow = { [Name in keyof Kept]: NonNullable<Kept[Name]> } & { used_orders: string | null };

export default function KeptPage() {
  const { tables } = useMember().staff;
  const may = useMay();
  const filters = useListFilters({ show: '' });
  const isWhole = filters.values.show === 'all';
  const read: ReadPage<KeptRow> = ({ after, limit, signal }) =>
    tables
      .rpc('kept_for_customers', {
        only_owed: !isWhole,
        before_created_at: after?.created_at ?? null,
        before_id: after?.id ?? null,
        page_size: limit,
      })
      .abortSignal(signal) as unknown as ReturnType<ReadPage<KeptRow>>;
  const rows = useRows<KeptRow>(['kept', 'list', isWhole], read);
  const totals = useQuery({
    queryKey: ['kept', 'totals'],
    queryFn: async ({ signal }) => dataOf(await tables.rpc('kept_totals').abortSignal(signal).single()),
  }).data;
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-2">
      {may('reconciliation') ? <UpLink to="/admin/reconciliation" name="Reconciliation" /> : null}
      <ListFrame
        heading="Kept for customers"
        subtitle="Change that is owed, used and given back"
        tools={
          <>
            <FilterSelect
              label="Show"
              value={isWhole ? 'all' : ''}
              options={[
                { value: '', label: 'Still owed' },
                { value: 'all', label: 'All' },
              ]}
              onChoose={(value) => filters.set('show', value)}
            />
            <ExportButton<KeptRow> name="kept-for-customers" read={read} columns={exportColumns} />
          </>
        }
        toolbar={totals ? <p className="text-sm tabular-nums">{describeTotals(totals)}</p> : null}
      >
        <RowList
          {...rows}
          label="Kept for customers"
          columns={columns}
          compact={(row) => <CompactRow row={row} />}
          empty={
            isWhole
              ? {
                  title: 'Nothing was kept yet',
                  text: 'What a customer paid too much, and you keep for the next order, is listed here.',
                }
              : {
                  title: 'Nothing is owed',
                  text: 'All that was kept for customers was used or given back.',
                  action: (
                    <Button tone="quiet" onClick={() => filters.set('show', 'all')}>
                      Show all
                    </Button>
                  ),
                }
          }
        />
      </ListFrame>
    </div>
  );
}

interface Totals {
  owed_cents: number;
  used_cents: number;
  returned_cents: number;
  customers: number;
}

function describeTotals({ owed_cents, used_cents, returned_cents, customers }: Totals): string {
  const who = customers === 1 ? 'one customer' : `${formatCount(customers)} customers`;
  return [
    owed_cents > 0 ? `${formatKes(owed_cents)} owed to ${who}` : 'Nothing is owed',
    `${formatKes(used_cents)} used`,
    `${formatKes(returned_cents)} given back`,
  ].join(' · ');
}

const OrderLink = ({ row: { order_id, order_number } }: { row: KeptRow }) => (
  <Link to={`/admin/orders/${order_id}`} className="tap font-semibold underline">
    {order_number}
  </Link>
);

/** The phone is the customer. Null once it was erased. */
const Customer = ({ row: { customer_name, customer_phone } }: { row: KeptRow }) =>
  customer_phone ? (
    <span className="wrap-anywhere">
      <Link to={`/admin/customers/${customer_phone}`} className="tap font-semibold underline">
        {customer_name}
      </Link>{' '}
      <span className="whitespace-nowrap text-ink-soft">{formatPhone(customer_phone)}</span>
    </span>
  ) : (
    <span className="text-ink-soft">Details removed</span>
  );

const Owed = ({ cents, isSmall }: { cents: number; isSmall?: boolean }) =>
  cents > 0 ? (
    <Badge tone="yellow" isSmall={isSmall}>
      {formatKes(cents)} owed
    </Badge>
  ) : (
    <Badge tone="green" isSmall={isSmall}>
      Settled
    </Badge>
  );

const columns: Column<KeptRow>[] = [
  { title: 'Customer', show: (row) => <Customer row={row} /> },
  { title: 'From order', show: (row) => <OrderLink row={row} /> },
  {
    title: 'Since',
    show: ({ created_at }) => <span className="whitespace-nowrap">{formatDateTime(created_at)}</span>,
  },
  { title: 'Kept', isNumber: true, show: ({ kept_cents }) => formatKes(kept_cents) },
  {
    title: 'Used',
    isNumber: true,
    show: ({ used_cents, used_orders }) =>
      used_cents > 0 ? (
        <>
          {formatKes(used_cents)}
          <span className="block text-xs text-ink-soft">{used_orders}</span>
        </>
      ) : (
        '—'
      ),
  },
  {
    title: 'Given back',
    isNumber: true,
    show: ({ returned_cents }) => (returned_cents > 0 ? formatKes(returned_cents) : '—'),
  },
  { title: 'State', show: ({ owed_cents }) => <Owed cents={owed_cents} /> },
];

/** On phones. */
function CompactRow({ row }: { row: KeptRow }) {
  const { kept_cents, used_cents, used_orders, returned_cents, owed_cents, created_at } = row;
  const facts = [
    `${formatKes(kept_cents)} kept`,
    used_cents > 0 ? `${formatKes(used_cents)} used${used_orders ? ` for ${used_orders}` : ''}` : '',
    returned_cents > 0 ? `${formatKes(returned_cents)} given back` : '',
  ];
  return (
    <div className="grid gap-0.5 py-1 text-sm leading-5.5">
      <p className="flex flex-wrap items-center justify-between gap-x-3">
        <Customer row={row} />
        <Owed cents={owed_cents} isSmall />
      </p>
      <p className="text-ink-soft tabular-nums">{facts.filter(Boolean).join(' · ')}</p>
      <p className="text-ink-soft">
        <OrderLink row={row} /> · {formatDateTime(created_at)}
      </p>
    </div>
  );
}

const exportColumns: CsvColumn<KeptRow>[] = [
  { title: 'Customer', value: ({ customer_name }) => customer_name },
  { title: 'Phone', value: ({ customer_phone }) => phoneCell(customer_phone) },
  { title: 'Order #', value: ({ order_number }) => order_number },
  { title: 'Since (Nairobi time)', value: ({ created_at }) => formatForFile(created_at) },
  { title: 'Kept (KES)', value: ({ kept_cents }) => kept_cents / 100 },
  { title: 'Used (KES)', value: ({ used_cents }) => used_cents / 100 },
  { title: 'Used for', value: ({ used_orders }) => used_orders },
  { title: 'Given back (KES)', value: ({ returned_cents }) => returned_cents / 100 },
  { title: 'Owed (KES)', value: ({ owed_cents }) => owed_cents / 100 },
];
