// Reports on any span of days: money, orders, drinks, hours, areas, riders, discounts, refunds and prompts.
import type { ReactNode } from 'react';
import { formatCount } from '../../../domain/count.ts';
import { formatKes } from '../../../domain/money.ts';
import { adviseOnResult } from '../../../domain/mpesa/result-advice.ts';
import { nairobiDay } from '../../../domain/nairobi-time.ts';
import { useReadEntries } from '../day/day-queries.ts';
import { entryFileColumns, kindLabels } from '../day/entry-columns.tsx';
import { describeStaffPage } from '../layout/staff-page.ts';
import { ExportButton } from '../list/export/export-button.tsx';
import { box } from '../list/list-toolbar.tsx';
import { useListFilters } from '../list/use-list-filters.ts';
import { labelOf } from '../status/label-of.ts';
import { FittingFigure } from '../ui/fitting-figure.tsx';
import { ScreenLoadState } from '../ui/load-states.tsx';
import { useNow } from '../ui/time/age.tsx';
import { formatDay, nameDay, nameDayShortly } from '../ui/time/nairobi-day.ts';
import type { Route } from './+types/reports-page.ts';
import { DeliveryTables } from './delivery-tables.tsx';
import { type PromptCount, type Report, totalsOf, useReport } from './report-queries.ts';
import { readSpan, type Span, type SpanFilter, spanChoices } from './report-span.ts';
import { ReportTable } from './report-table.tsx';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Reports');

export default function ReportsPage() {
  const filters = useListFilters<SpanFilter>({ span: '', from: '', until: '' });
  const today = nairobiDay(useNow());
  const read = readSpan(filters.values, today);
  const span = 'problem' in read ? null : read;
  const report = useReport(span);
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
      <header className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <div className="min-w-fit flex-1">
          <h1 className="text-xl leading-7 md:text-2xl">Reports</h1>
          {span ? <p className="text-sm text-ink-soft">{nameSpan(span)}</p> : null}
        </div>
        <SpanChoice filters={filters} today={today} />
        {span ? <MoneyFile span={span} /> : null}
      </header>
      {'problem' in read ? (
        <p role="status" className="rounded-lg border border-line bg-card p-5 text-ink-soft">
          {read.problem}
        </p>
      ) : report.data ? (
        <div
          aria-busy={report.isPlaceholderData || undefined}
          className="grid grid-cols-[minmax(0,1fr)] gap-4 aria-busy:opacity-60"
        >
          <Shown report={report.data} span={report.data.span} />
        </div>
      ) : (
        <ScreenLoadState noun="report" queries={[report]} />
      )}
    </div>
  );
}

const nameSpan = ({ since, until }: Span): string =>
  since === until ? nameDay(since) : `${nameDayShortly(since)} to ${nameDayShortly(until)}`;

function SpanChoice({
  filters,
  today,
}: {
  filters: ReturnType<typeof useListFilters<SpanFilter>>;
  today: string;
}) {
  const { span } = filters.values;
  return (
    <div className="flex min-w-0 flex-wrap items-center gap-2">
      <fieldset className="flex min-w-0 flex-wrap gap-1.5">
        <legend className="sr-only">Days of the report</legend>
        {spanChoices.map(({ value, label }) => (
          <button
            key={value}
            type="button"
            aria-pressed={span === value}
            onClick={() => filters.set('span', value)}
            className="min-h-11 rounded-pill bg-paper-deep px-4 text-sm font-semibold text-ink hover:bg-line aria-pressed:bg-dusk-800 aria-pressed:text-white forced-colors:border"
          >
            {label}
          </button>
        ))}
      </fieldset>
      {span === 'range' ? (
        <div className="flex flex-wrap items-center gap-2">
          <DayInput
            label="First day"
            value={filters.values.from}
            max={today}
            onChoose={(day) => filters.set('from', day)}
          />
          <DayInput
            label="Last day"
            value={filters.values.until}
            max={today}
            onChoose={(day) => filters.set('until', day)}
          />
        </div>
      ) : null}
    </div>
  );
}

interface DayInputProps {
  label: string;
  value: string;
  max: string;
  onChoose(day: string): void;
}

const DayInput = ({ label, value, max, onChoose }: DayInputProps) => (
  <label className="flex items-center gap-1.5 text-sm font-semibold">
    <span className="sr-only">{label}</span>
    <input
      type="date"
      value={value}
      max={max}
      onChange={({ target }) => onChoose(target.value)}
      className={`${box} px-2`}
    />
  </label>
);

function MoneyFile({ span: { since, until } }: { span: Span }) {
  const read = useReadEntries(since, until);
  return (
    <ExportButton
      name="money"
      day={since === until ? since : `${since}-to-${until}`}
      label="CSV for the accountant"
      read={read}
      columns={entryFileColumns}
    />
  );
}

const kes = (cents: number): number => cents / 100;
const largest = (numbers: readonly number[]): number => Math.max(1, ...numbers);

function Figure({ term, children, beneath }: { term: string; children: string; beneath?: ReactNode }) {
  return (
    <div className="@container rounded-lg border border-line bg-card p-3.5 shadow-sm md:p-4">
      <dt className="text-sm font-semibold text-ink-soft">{term}</dt>
      <dd>
        <FittingFigure size="var(--text-2xl)" className="leading-tight">
          {children}
        </FittingFigure>
      </dd>
      {beneath ? <dd className="text-sm text-ink-soft">{beneath}</dd> : null}
    </div>
  );
}

function Shown({ report, span }: { report: Report; span: Span }) {
  const totals = totalsOf(report);
  const { days, drinks, hours, areas, riders, refunds, prompts, discounts } = report;
  const isEmpty = totals.orders === 0 && totals.receivedCents === 0 && totals.refundedCents === 0;
  if (isEmpty) {
    return (
      <p role="status" className="rounded-lg border border-line bg-card p-5 text-ink-soft">
        No orders were placed and no money moved in this time. Choose other days to see more.
      </p>
    );
  }
  const most = {
    units: largest(drinks.map(({ units }) => units)),
    orders: largest(areas.map(({ orders }) => orders)),
    deliveries: largest(riders.map(({ orders }) => orders)),
  };
  const failures = failuresOf(prompts);
  return (
    <>
      <dl className="grid grid-cols-2 gap-3 md:gap-4 lg:grid-cols-4">
        <Figure
          term="Money received"
          beneath={
            totals.refundedCents === 0
              ? 'Nothing went back'
              : `${formatKes(totals.receivedCents)} came in, ${formatKes(totals.refundedCents)} went back`
          }
        >
          {formatKes(totals.netCents)}
        </Figure>
        <Figure term="Orders" beneath={`${formatCount(totals.sold)} of them are paid`}>
          {formatCount(totals.orders)}
        </Figure>
        <Figure term="Average paid order" beneath={`${formatKes(totals.soldCents)} in all`}>
          {totals.averageCents === null ? '–' : formatKes(totals.averageCents)}
        </Figure>
        <Figure
          term="Paid prompts"
          beneath={
            totals.ended === 0
              ? 'No prompt was sent'
              : `${formatCount(totals.paid)} of ${formatCount(totals.ended)}`
          }
        >
          {totals.ended === 0 ? '–' : `${Math.round((100 * totals.paid) / totals.ended)} %`}
        </Figure>
      </dl>
      <div className="gap-4 lg:columns-2">
        <ReportTable
          title="Money and orders by day"
          description="Money on the day on which it moved, as on the day's page; orders on the day on which they were placed."
          name="days"
          span={span}
          rows={days.length > 1 ? [...days].reverse() : days}
          empty="There are no days in this time."
          {...(days.length > 1
            ? {
                chart: {
                  name: 'Money received',
                  bars: days.map(({ day, net_cents }) => ({ label: formatDay(day), value: kes(net_cents) })),
                  describe: (value: number) => formatKes(Math.round(value * 100)),
                },
              }
            : {})}
          columns={[
            { title: 'Day', text: ({ day }) => day, to: ({ day }) => `/admin/day/${day}` },
            { title: 'Received (KES)', cents: ({ net_cents }) => net_cents },
            { title: 'Orders', count: ({ orders }) => orders },
            { title: 'Paid', count: ({ sold }) => sold },
            { title: 'Came in (KES)', cents: ({ received_cents }) => received_cents },
            { title: 'Went back (KES)', cents: ({ refunded_cents }) => refunded_cents },
          ]}
        />
        <ReportTable
          title="Paid orders by hour"
          description="When they were placed, in Nairobi time."
          name="hours"
          span={span}
          rows={hours}
          empty="No order of this time is paid."
          chart={{
            name: 'Paid orders by hour',
            bars: hours.map(({ hour, orders }) => ({ label: `${hour}:00`, value: orders })),
            describe: (value) => (value === 1 ? '1 order' : `${formatCount(value)} orders`),
          }}
          columns={[
            { title: 'Hour', text: ({ hour }) => `${String(hour).padStart(2, '0')}:00` },
            { title: 'Paid orders', count: ({ orders }) => orders },
            { title: 'Charged (KES)', cents: ({ cents }) => cents },
          ]}
        />
        <ReportTable
          title="Drinks"
          description="Of paid orders, without delivery fees."
          name="drinks"
          span={span}
          rows={drinks}
          empty="No drink was sold in this time."
          share={({ units }) => units / most.units}
          columns={[
            { title: 'Drink', text: ({ name }) => name },
            { title: 'Sold', count: ({ units }) => units },
            { title: 'Orders', count: ({ orders }) => orders },
            { title: 'Amount (KES)', cents: ({ cents }) => cents },
          ]}
        />
        <ReportTable
          title="Areas"
          description="Where paid orders went. Up to 50 areas are listed."
          name="areas"
          span={span}
          rows={areas}
          empty="No order of this time is paid."
          share={({ orders }) => orders / most.orders}
          columns={[
            { title: 'Area', text: ({ area }) => area },
            { title: 'Orders', count: ({ orders }) => orders },
            { title: 'Charged (KES)', cents: ({ cents }) => cents },
          ]}
        />
        <ReportTable
          title="Riders"
          description="Deliveries of orders that were placed in this time."
          name="riders"
          span={span}
          rows={riders}
          empty="No rider had an order of this time."
          share={({ orders }) => orders / most.deliveries}
          columns={[
            { title: 'Rider', text: ({ rider }) => rider },
            { title: 'Orders', count: ({ orders }) => orders },
            { title: 'Delivered', count: ({ delivered }) => delivered },
            { title: 'Failed', count: ({ failures }) => failures },
            { title: 'Cash (KES)', cents: ({ cash_cents }) => cash_cents },
          ]}
        />
        {discounts.length > 0 ? (
          <ReportTable
            title="Discount codes"
            description={`Of paid orders: ${formatKes(discounts.reduce((sum, { cents }) => sum + cents, 0))} off their drinks.`}
            name="discount-codes"
            span={span}
            rows={discounts}
            empty=""
            columns={[
              { title: 'Code', text: ({ code }) => code },
              { title: 'Orders', count: ({ orders }) => orders },
              { title: 'Discount (KES)', cents: ({ cents }) => cents },
            ]}
          />
        ) : null}
        <DeliveryTables span={span} />
        <ReportTable
          title="Refunds"
          description="What went back in this time, and why."
          name="refunds"
          span={span}
          rows={refunds}
          empty="No money went back in this time."
          columns={[
            { title: 'Reason', text: ({ reason }) => (reason as string | null) ?? 'No reason given' },
            { title: 'Way', text: ({ kind }) => labelOf(kindLabels, kind) },
            { title: 'Times', count: (refund) => refund.refunds },
            { title: 'Amount (KES)', cents: ({ cents }) => cents },
          ]}
        />
        <ReportTable
          title="Why prompts failed"
          description={
            totals.ended === 0
              ? 'M-PESA prompts for orders of this time.'
              : `${formatCount(totals.ended - totals.paid)} of ${formatCount(totals.ended)} M-PESA prompts for orders of this time.`
          }
          name="failed-prompts"
          span={span}
          rows={failures}
          empty="No prompt failed in this time."
          share={(failure) => failure.prompts / largest(failures.map((row) => row.prompts))}
          columns={[
            { title: 'Reason', text: ({ reason }) => reason },
            { title: "M-PESA's code", text: ({ result_code }) => result_code },
            { title: 'Prompts', count: (failure) => failure.prompts },
          ]}
        />
      </div>
    </>
  );
}

const failuresOf = (prompts: readonly PromptCount[]) =>
  prompts
    .filter(({ status }) => status === 'failed')
    .map((row) => ({
      ...row,
      reason: row.result_code
        ? adviseOnResult(row.result_code, null, 'result').what
        : 'M-PESA refused the request',
    }));
