// The day's page: one sum that explains itself, cash by person, the close of the day, and what moved money.
import { useState } from 'react';
import { Link, useNavigate } from 'react-router';
import { formatKes } from '../../../domain/money.ts';
import { nairobiDay } from '../../../domain/nairobi-time.ts';
import { Button, buttonStyle } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { keysOf } from '../data/keys-of.ts';
import { describeStaffPage } from '../layout/staff-page.ts';
import { ExportButton } from '../list/export/export-button.tsx';
import { FilterSelect, ListToolbar } from '../list/list-toolbar.tsx';
import { RowList } from '../list/row-list.tsx';
import { useListFilters } from '../list/use-list-filters.ts';
import { DayNavigation } from '../reconciliation/days/day-navigation.tsx';
import { FittingFigure } from '../ui/fitting-figure.tsx';
import { ScreenLoadState } from '../ui/load-states.tsx';
import { useNow } from '../ui/time/age.tsx';
import { nameDay, readDay } from '../ui/time/nairobi-day.ts';
import { usePart } from '../ui/use-part.ts';
import type { Route } from './+types/day-page.ts';
import { BridgeTable } from './bridge-table.tsx';
import { CashCard, ClosedNotice } from './cash-card.tsx';
import { booksBridge, type DayTotals, moneyBridge, ordersBridge, type Shown } from './day-bridge.ts';
import {
  mostEntries,
  useCash,
  useCashDue,
  useClose,
  useDayTotals,
  useEntries,
  useReadEntries,
} from './day-queries.ts';
import { EntryRow, entryColumns, entryFileColumns, isShown, shownLabels } from './entry-columns.tsx';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'The day');

const loadSheet = () => import('./printed-day.tsx');

export default function DayPage({ params }: Route.ComponentProps) {
  const today = nairobiDay(useNow());
  const day = readDay(params.day ?? null, today);
  const navigate = useNavigate();
  const totals = useDayTotals(day);
  const cash = useCash(day);
  const cashDue = useCashDue(day);
  const close = useClose(day);
  const [isPrinting, setPrinting] = useState(false);
  const sheet = usePart(loadSheet, isPrinting, () => setPrinting(false));
  const isLoaded = totals.data && cash.data && cashDue.data && close.data !== undefined;

  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
      <header className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <h1 className="flex-1 text-xl leading-7 max-sm:basis-full sm:min-w-fit md:text-2xl">
          {nameDay(day)}
        </h1>
        <div className="flex min-w-0 max-sm:basis-full">
          <DayNavigation
            day={day}
            today={today}
            onGo={(to) => void navigate(to === today ? '/admin/day' : `/admin/day/${to}`)}
          />
        </div>
        <div className="flex flex-wrap gap-2">
          <Button tone="quiet" isBusy={!isLoaded} onClick={() => setPrinting(true)} className="px-4!">
            Print
          </Button>
          <Link to={`/admin/reports?span=range&from=${day}&until=${day}`} className={buttonStyle('quiet')}>
            Report
          </Link>
        </div>
      </header>
      {totals.data && cash.data && cashDue.data && close.data !== undefined ? (
        <>
          {close.data ? <ClosedNotice close={close.data} totals={totals.data} /> : null}
          {/* Beside each other each card begins where the one above it ends, whatever their heights. */}
          <div className="grid grid-cols-[minmax(0,1fr)] items-start gap-4 lg:grid-cols-2 lg:*:nth-1:row-span-2 lg:*:nth-3:col-start-2 lg:*:nth-3:row-span-2 lg:*:nth-4:col-start-1 lg:*:nth-4:row-start-3">
            <MoneyCard totals={totals.data} day={day} />
            <CashCard day={day} today={today} cash={cash.data} cashDue={cashDue.data} close={close.data} />
            <Card
              title="In M-PESA's books"
              description="The same money, as the shop and M-PESA have booked it."
            >
              <BridgeTable bridge={booksBridge(totals.data, day)} />
            </Card>
            <Card
              title="From the orders to the money"
              description="What was ordered on this day, and what of it came in."
            >
              <BridgeTable bridge={ordersBridge(totals.data, day)} />
              <p className="mt-3 border-t border-line pt-2 text-sm text-ink-soft">
                Included: {formatKes(totals.data.delivery_fees)} of delivery fees in the paid orders, and{' '}
                {formatKes(totals.data.in_review)} that arrived for orders that need review.
                {totals.data.discounts > 0
                  ? ` Discount codes took ${formatKes(totals.data.discounts)} off the paid orders; every amount above is without it.`
                  : ''}
              </p>
            </Card>
          </div>
          {isPrinting && sheet ? (
            <sheet.PrintedDay
              day={day}
              totals={totals.data}
              cash={cash.data}
              cashDue={cashDue.data}
              close={close.data}
              onPrinted={() => setPrinting(false)}
            />
          ) : null}
        </>
      ) : (
        <ScreenLoadState noun="totals of the day" queries={[totals, cash, cashDue, close]} />
      )}
      <Entries day={day} />
    </div>
  );
}

/** Such as "= 87,185 came in − 3,003 went back". */
const describeSum = ({ received, refunded }: DayTotals): string =>
  `= ${formatKes(received)} came in${refunded === 0 ? '' : ` − ${formatKes(0 - refunded)} went back`}`;

function MoneyCard({ totals, day }: { totals: DayTotals; day: string }) {
  const isEmpty = totals.received === 0 && totals.refunded === 0 && totals.kept === 0;
  return (
    <Card title="Money received" description="Payments that arrived on this day, less what went back.">
      <div className="@container mb-2">
        <FittingFigure size="var(--text-4xl)" className="leading-tight">
          {formatKes(totals.net_received)}
        </FittingFigure>
        <p className="text-ink-soft tabular-nums">
          {isEmpty ? 'No money came in or went back on this day.' : describeSum(totals)}
        </p>
      </div>
      <BridgeTable bridge={moneyBridge(totals, day)} />
    </Card>
  );
}

const rowsAtOnce = 50;

function Entries({ day }: { day: string }) {
  const filters = useListFilters<{ show: Shown | '' }>({ show: '' });
  const { show } = filters.values;
  const entries = useEntries(day);
  const read = useReadEntries(day, day);
  const [shownOf, setShown] = useState({ day, count: rowsAtOnce });
  const count = shownOf.day === day ? shownOf.count : rowsAtOnce;
  const isCurrent = entries.data?.day === day;
  const rows = isCurrent ? (entries.data?.rows ?? []) : [];
  const filtered = show in shownLabels ? rows.filter((row) => isShown(show as Shown, row)) : rows;
  return (
    <section
      id="entries"
      aria-labelledby="entries-title"
      className="min-w-0 scroll-mt-16 overflow-clip rounded-lg border border-line bg-card shadow-sm max-sm:-mx-3 max-sm:rounded-none max-sm:border-x-0"
    >
      <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-2 px-3 py-2 sm:px-4">
        <h2 id="entries-title" className="text-xl">
          What moved money
        </h2>
        <ListToolbar>
          <FilterSelect
            label="Show"
            value={show}
            options={[
              { value: '', label: `All (${rows.length}${rows.length === mostEntries ? ' and more' : ''})` },
              ...keysOf(shownLabels).map((value) => ({
                value,
                label: `${shownLabels[value]} (${rows.filter((row) => isShown(value, row)).length})`,
              })),
            ]}
            onChoose={(value) => filters.set('show', value)}
          />
          <ExportButton
            name="money"
            day={day}
            label="CSV for the accountant"
            read={read}
            columns={entryFileColumns}
          />
        </ListToolbar>
      </div>
      <RowList
        rows={filtered.slice(0, count)}
        isLoading={!isCurrent && !entries.error}
        error={entries.error}
        retry={() => void entries.refetch()}
        hasMore={filtered.length > count}
        more={() => setShown({ day, count: count + rowsAtOnce })}
        label="Entries"
        columns={entryColumns}
        compact={(entry) => <EntryRow entry={entry} />}
        empty={
          show
            ? {
                title: 'Nothing of this kind',
                text: 'The day has other entries, or none.',
                action: (
                  <Button tone="quiet" onClick={() => filters.set('show', '')}>
                    Show all entries
                  </Button>
                ),
              }
            : {
                title: 'No money moved on this day',
                text: 'Payments, refunds and credit appear here as they come in.',
              }
        }
      />
    </section>
  );
}
