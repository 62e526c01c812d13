// The days of a range, with their open differences.
import { Link } from 'react-router';
import { formatCount } from '../../../../domain/count.ts';
import { formatKes } from '../../../../domain/money.ts';
import { nairobiDay } from '../../../../domain/nairobi-time.ts';
import { Badge, type BadgeTone } from '../../../ui/badge.tsx';
import { Button, buttonStyle } from '../../../ui/button.tsx';
import { describeStaffPage } from '../../layout/staff-page.ts';
import type { CsvColumn } from '../../list/export/csv.ts';
import { ExportButton } from '../../list/export/export-button.tsx';
import { FilterSelect, ListToolbar } from '../../list/list-toolbar.tsx';
import { type Column, ListFrame, RowList } from '../../list/row-list.tsx';
import { useListFilters } from '../../list/use-list-filters.ts';
import { dayAfter, nameDayShortly } from '../../ui/time/nairobi-day.ts';
import { type DaySums, useBookDays } from '../reconciliation-queries.ts';
import { listStatementNotices, StatementNotices } from '../statement-notices.tsx';
import { useStatementStatus } from '../statement-status.ts';
import { UnknownPayments } from '../unknown-payments.tsx';
import type { Route } from './+types/days-page.ts';

export const meta: Route.MetaFunction = ({ matches }) =>
  describeStaffPage(matches, 'Reconciliation, all days');

const ranges = [
  { value: '', label: 'Last 30 days' },
  { value: '7', label: 'Last 7 days' },
  { value: '90', label: 'Last 90 days' },
  { value: '365', label: 'Last 365 days' },
];

type DayRow = DaySums & { id: string; created_at: string };

export default function DaysPage() {
  const filters = useListFilters({ range: '', show: '' });
  const { range, show } = filters.values;
  const today = nairobiDay(Date.now());
  const length = ranges.some(({ value }) => value === range) ? Number(range) || 30 : 30;
  const days = useBookDays(dayAfter(today, 1 - length), today);
  const status = useStatementStatus();
  const rows: DayRow[] = (days.data ?? [])
    .filter((row) => (show === 'open' ? row.open > 0 : show === 'all' || row.payments > 0))
    .map((row) => ({ ...row, id: row.day, created_at: row.day }));

  return (
    <div className="grid gap-6">
      <ListFrame
        heading="Reconciliation"
        subtitle="Days with open differences"
        actions={
          <Link to="/admin/reconciliation" className={buttonStyle('dusk')}>
            Today
          </Link>
        }
        toolbar={
          <>
            <StatementNotices notices={listStatementNotices(status.data, status.data?.missed ?? [])} />
            <ListToolbar>
              <FilterSelect
                label="Range"
                value={ranges.some(({ value }) => value === range) ? range : ''}
                options={ranges}
                onChoose={(value) => filters.set('range', value)}
              />
              <FilterSelect
                label="Show"
                value={show}
                options={[
                  { value: '', label: 'Days with payments' },
                  { value: 'open', label: 'Days with open differences' },
                  { value: 'all', label: 'Every day' },
                ]}
                onChoose={(value) => filters.set('show', value)}
              />
              <ExportButton
                name="days"
                read={async ({ after }) => ({ data: after ? [] : rows, error: null })}
                columns={exportColumns}
              />
            </ListToolbar>
          </>
        }
      >
        <RowList
          rows={rows}
          isLoading={days.isPending}
          isOutdated={days.isPlaceholderData}
          error={days.error}
          retry={() => void days.refetch()}
          label="Days"
          columns={columns}
          compact={(row) => <DayRowCompact row={row} />}
          rowStyle={(row) => (row.open > 0 ? 'bg-danger-soft/40 shadow-[inset_4px_0_0] shadow-danger' : '')}
          empty={
            show === 'open'
              ? {
                  title: 'No open differences',
                  text: 'Every difference of this range is decided.',
                  action: (
                    <Button tone="quiet" onClick={() => filters.set('show', '')}>
                      Show the days with payments
                    </Button>
                  ),
                }
              : { title: 'No payments in this range', text: 'Choose a longer one.' }
          }
        />
      </ListFrame>
      <UnknownPayments />
    </div>
  );
}

const differences = ({ missing_here, missing_there, doubles, wrong_amounts }: DaySums): string =>
  [
    [missing_here, 'missing here'],
    [missing_there, 'missing at M-PESA'],
    [doubles, 'paid twice'],
    [wrong_amounts, 'wrong amount'],
  ]
    .filter(([count]) => Number(count) > 0)
    .map(([count, words]) => `${count} ${words}`)
    .join(', ');

const columns: Column<DayRow>[] = [
  {
    title: 'Day',
    show: ({ day }) => <span className="font-semibold whitespace-nowrap">{nameDayShortly(day)}</span>,
  },
  {
    title: 'State',
    show: (row) => <DayBadge row={row} />,
  },
  { title: 'Payments', isNumber: true, show: ({ payments }) => formatCount(payments) },
  { title: 'Our books', isNumber: true, show: ({ ours }) => formatKes(ours) },
  { title: 'M-PESA', isNumber: true, show: ({ theirs }) => formatKes(theirs) },
  { title: 'Differences', show: (row) => differences(row) || 'None' },
  {
    title: 'Actions',
    show: (row) => <OpenLink row={row} />,
  },
];

function DayBadge({ row: { open, payments, not_compared }, isSmall }: { row: DayRow; isSmall?: boolean }) {
  const [tone, words]: [BadgeTone, string] =
    open > 0
      ? ['red', `${open} to decide`]
      : payments === 0
        ? ['grey', 'No payments']
        : not_compared > 0
          ? ['grey', 'Not compared yet']
          : ['green', 'In order'];
  return (
    <span className="whitespace-nowrap">
      <Badge tone={tone} isSmall={isSmall}>
        {words}
      </Badge>
    </span>
  );
}

const OpenLink = ({ row: { day } }: { row: DayRow }) => (
  <Link to={`/admin/reconciliation?day=${day}`} className={buttonStyle('quiet')}>
    Open<span className="sr-only"> {nameDayShortly(day)}</span>
  </Link>
);

/** On phones. */
function DayRowCompact({ row }: { row: DayRow }) {
  const { day, payments, ours, theirs } = row;
  return (
    <div className="grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-3">
      <div className="grid gap-x-6 py-1 text-sm leading-5.5 md:grid-cols-2">
        <p className="flex flex-wrap items-center gap-x-2 whitespace-nowrap">
          <span className="font-semibold">{nameDayShortly(day)}</span>
          <DayBadge row={row} isSmall />
        </p>
        {payments > 0 ? (
          <p className="tabular-nums">
            {formatCount(payments)} payments:{' '}
            {ours === theirs ? formatKes(ours) : `ours ${formatKes(ours)}, M-PESA ${formatKes(theirs)}`}
          </p>
        ) : null}
        {differences(row) ? <p className="text-ink-soft md:col-span-2">{differences(row)}</p> : null}
      </div>
      <OpenLink row={row} />
    </div>
  );
}

const exportColumns: CsvColumn<DayRow>[] = [
  { title: 'Day', value: ({ day }) => day },
  { title: 'Our books (KES)', value: ({ ours }) => ours / 100 },
  { title: 'M-PESA (KES)', value: ({ theirs }) => theirs / 100 },
  { title: 'Payments', value: ({ payments }) => payments },
  { title: 'Matched', value: ({ matched }) => matched },
  { title: 'Missing here', value: ({ missing_here }) => missing_here },
  { title: 'Missing at M-PESA', value: ({ missing_there }) => missing_there },
  { title: 'Paid twice', value: ({ doubles }) => doubles },
  { title: 'Wrong amount', value: ({ wrong_amounts }) => wrong_amounts },
  { title: 'Not compared yet', value: ({ not_compared }) => not_compared },
  { title: 'To decide', value: ({ open }) => open },
];
