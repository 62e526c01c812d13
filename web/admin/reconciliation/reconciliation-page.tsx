// The reconciliation of a day: matches, differences, and their actions.

import { type ReactNode, useId, useState } from 'react';
import { Link } from 'react-router';
import { nairobiDay } from '../../../domain/nairobi-time.ts';
import { Button, buttonStyle } from '../../ui/button.tsx';
import { keysOf } from '../data/keys-of.ts';
import { ConfirmDialog } from '../dialogs/confirm-dialog.tsx';
import { useDialogOpener } from '../dialogs/use-dialog-parameter.ts';
import { describeStaffPage } from '../layout/staff-page.ts';
import { ExportButton } from '../list/export/export-button.tsx';
import { MoreFilters, type QuickFilter, QuickFilters } from '../list/list-filters.tsx';
import { FilterSelect } from '../list/list-toolbar.tsx';
import { ListFrame, RowList } from '../list/row-list.tsx';
import { useListFilters } from '../list/use-list-filters.ts';
import type { ReadPage } from '../list/use-rows.ts';
import { PrintList } from '../print/print-list.tsx';
import { formatDay, nameDay, readDay } from '../ui/time/nairobi-day.ts';
import type { Route } from './+types/reconciliation-page.ts';
import { DayNavigation } from './days/day-navigation.tsx';
import { DaySummary, describeSums } from './days/day-summary.tsx';
import {
  DifferenceRow,
  differenceColumns,
  exportColumns,
  printColumns,
} from './differences/difference-columns.tsx';
import { DifferenceDialog } from './differences/difference-dialog.tsx';
import type { BookRow } from './differences/difference-texts.ts';
import {
  type Decision,
  explainDecision,
  type Kind,
  kinds,
  labelDecision,
} from './differences/difference-texts.ts';
import { MessagesToCheck, useMessagesToCheck } from './messages-to-check/messages-to-check.tsx';
import { useBookDay, useResolve } from './reconciliation-queries.ts';
import { listStatementNotices, StatementNotices } from './statement-notices.tsx';
import { useStatementStatus } from './statement-status.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Reconciliation');

const rowsAtOnce = 100;

export default function ReconciliationPage() {
  const filters = useListFilters<{ day: string; show: Kind | 'open' | '' }>({ day: '', show: '' });
  const { show } = filters.values;
  const today = nairobiDay(Date.now());
  const day = readDay(filters.values.day, today);
  const book = useBookDay(day);
  const status = useStatementStatus();
  const open = useDialogOpener('view');
  const [confirming, setConfirming] = useState<{ row: BookRow; decision: Decision } | null>(null);
  const resolve = useResolve(() => setConfirming(null));
  const [shownOf, setShown] = useState({ day, count: rowsAtOnce });
  const count = shownOf.day === day ? shownOf.count : rowsAtOnce;

  // While another day loads, the previous day's data is not shown.
  const rows = book.data?.day === day ? book.data.rows : [];
  const isLoading = book.data?.day !== day && !book.error;
  const filtered = rows.filter((row) => !show || (show === 'open' ? row.is_open : row.kind === show));
  const startDecision = (row: BookRow, decision: Decision) => {
    if (decision === 'give') open(row.id);
    else if (explainDecision(decision, row)) setConfirming({ row, decision });
    else resolve.resolve({ row, decision });
  };
  const options = { resolve, onOpen: (row: BookRow) => open(row.id), onAsk: startDecision };
  const panelId = useId();
  const [openPanel, setOpenPanel] = useState<string | null>(null);
  const toCheck = useMessagesToCheck();
  const waitingSince = status.data?.waiting_since;
  const oldestDay = waitingSince ? nairobiDay(Date.parse(waitingSince)) : null;
  const notices = listStatementNotices(status.data, book.data?.missed ?? []);
  const panels: Panel[] = [
    {
      label: 'Messages to check',
      count: toCheck?.count ?? 0,
      isUrgent: true,
      content: <MessagesToCheck />,
    },
    {
      label: 'Statement',
      count: notices.length,
      isUrgent: notices.some(({ tone }) => tone === 'danger'),
      content: <StatementNotices notices={notices} />,
    },
  ];
  const opened = panels.find(({ label, count }) => label === openPanel && count !== 0);
  const chipOf = ({ label, count, isUrgent = false }: Panel): QuickFilter => ({
    label,
    count,
    isUrgent,
    isOn: opened?.label === label,
    controls: panelId,
    onToggle: () => setOpenPanel(opened?.label === label ? null : label),
  });
  const waiting: QuickFilter[] = [
    {
      label: 'To decide',
      count: rows.filter((row) => row.is_open).length,
      isUrgent: true,
      ...filters.toggle('show', 'open'),
    },
    ...panels.map(chipOf),
  ];
  const countOf = (kind: Kind) => rows.filter((row) => row.kind === kind).length;

  return (
    <>
      <ListFrame
        heading="Reconciliation"
        subtitle="Our payments beside M-PESA's"
        actions={
          <>
            <Link to="/admin/reconciliation/kept" className={buttonStyle('dusk')}>
              Kept for customers
            </Link>
            <Link to="/admin/reconciliation/days" className={buttonStyle('dusk')}>
              All days
            </Link>
          </>
        }
        tools={
          <>
            <DayNavigation
              day={day}
              today={today}
              onGo={(to) => filters.set('day', to === today ? '' : to)}
            />
            <MoreFilters setCount={show ? 1 : 0}>
              <FilterSelect
                label="Show"
                value={show}
                options={[
                  { value: '', label: `All (${rows.length})` },
                  { value: 'open', label: `To decide (${rows.filter((row) => row.is_open).length})` },
                  ...keysOf(kinds).map((value) => ({
                    value,
                    label: `${kinds[value].label} (${countOf(value)})`,
                  })),
                ]}
                onChoose={(value) => filters.set('show', value)}
              />
              <ExportButton<ExportedRow>
                name="payments"
                day={day}
                read={readFrom(filtered)}
                columns={exportColumns}
              />
              <PrintList<ExportedRow>
                heading={`Reconciliation, ${nameDay(day)}`}
                read={readFrom(filtered)}
                columns={printColumns}
                summary={describeSums(rows)}
              />
            </MoreFilters>
          </>
        }
        chips={
          <div className="flex min-w-0 flex-1 flex-wrap items-center gap-x-3">
            {waiting.some(({ count, isOn }) => isOn || count) ? (
              <div className="max-w-full">
                <QuickFilters filters={waiting} />
              </div>
            ) : null}
            {oldestDay && oldestDay !== day ? (
              <Link
                to={`/admin/reconciliation?day=${oldestDay}&show=open`}
                className="tap py-1 text-sm font-semibold underline"
              >
                Oldest to decide: {formatDay(oldestDay)}
              </Link>
            ) : null}
            {book.data?.day === day ? <DaySummary rows={rows} /> : null}
            <Link to={`/admin/day/${day}`} className="tap py-1 text-sm font-semibold underline">
              How the day adds up
            </Link>
          </div>
        }
        notices={
          opened ? (
            <div
              id={panelId}
              className="grid grid-cols-[minmax(0,1fr)] gap-3 border-t border-line p-3 sm:px-4 print:hidden"
            >
              {opened.content}
            </div>
          ) : null
        }
      >
        <RowList
          rows={filtered.slice(0, count)}
          isLoading={isLoading}
          error={book.error}
          retry={() => void book.refetch()}
          hasMore={filtered.length > count}
          more={() => setShown({ day, count: count + rowsAtOnce })}
          label="Payments"
          columns={differenceColumns(options)}
          compact={(row) => <DifferenceRow row={row} options={options} />}
          rowStyle={(row) => (row.is_open ? 'bg-danger-soft/40 shadow-[inset_4px_0_0] shadow-danger' : '')}
          empty={
            show
              ? {
                  title: 'Nothing of this kind',
                  text: 'The day has other payments, or none.',
                  action: (
                    <Button tone="quiet" onClick={() => filters.set('show', '')}>
                      Show all payments
                    </Button>
                  ),
                }
              : {
                  title: 'No payments on this day',
                  text: book.data?.is_covered
                    ? 'Neither our books nor M-PESA have any.'
                    : "Our books have none. M-PESA's statement of this day is not read to its end.",
                }
          }
        />
      </ListFrame>
      <DifferenceDialog book={book} />
      <ConfirmDialog
        open={confirming !== null}
        title={
          confirming?.decision === 'refund'
            ? 'Send this money back?'
            : confirming
              ? `${labelDecision(confirming.decision, confirming.row)}?`
              : ''
        }
        text={confirming ? explainDecision(confirming.decision, confirming.row) : ''}
        confirm={
          confirming?.decision === 'refund'
            ? 'Send it back'
            : confirming
              ? labelDecision(confirming.decision, confirming.row)
              : ''
        }
        tone={
          confirming?.decision === 'refund' || confirming?.decision === 'cancel_and_refund'
            ? 'danger'
            : 'leaf'
        }
        isBusy={resolve.isPending}
        onConfirm={() => confirming && resolve.resolve(confirming)}
        onCancel={() => setConfirming(null)}
      />
    </>
  );
}

/** What a chip shows above the rows. */
interface Panel {
  label: string;
  /** A chip with 0 is not shown. */
  count: number;
  isUrgent?: boolean;
  content: ReactNode;
}

type ExportedRow = BookRow & { created_at: string };

/** The loaded rows, in the form that the export reads. */
function readFrom(rows: readonly BookRow[]): ReadPage<ExportedRow> {
  const all = rows.map((row) => ({ ...row, created_at: row.happened_at }));
  return async ({ after, limit }) => {
    const begin = after ? all.findIndex(({ id }) => id === after.id) + 1 : 0;
    return { data: all.slice(begin, begin + limit), error: null };
  };
}
