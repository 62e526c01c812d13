// The day on paper: its totals, the cash by person, who closed it, and a line for a signature.
import { formatKes } from '../../../domain/money.ts';
import { PrintSheet } from '../print/print-sheet.tsx';
import { useShortNameOf } from '../ui/staff-name.tsx';
import { formatDateTime } from '../ui/time/dates.ts';
import { nameDay } from '../ui/time/nairobi-day.ts';
import { describeStep } from './bridge-table.tsx';
import { describeCashDue } from './cash-due.tsx';
import { bridgesOf, changesSince, type DayTotals } from './day-bridge.ts';
import type { CashDue, CashOfMember, Close } from './day-queries.ts';

interface PrintedDayProps {
  day: string;
  totals: DayTotals;
  cash: readonly CashOfMember[];
  cashDue: readonly CashDue[];
  close: Close | null;
  onPrinted(): void;
}

export function PrintedDay({ day, totals, cash, cashDue, close, onPrinted }: PrintedDayProps) {
  const nameOf = useShortNameOf();
  const shown = { ...totals, ...close?.totals };
  const changes = close ? changesSince(close.totals, totals) : [];
  const counted = close
    ? close.counts.map((count) => ({ ...count, email: count.member_email ?? '' }))
    : cash.map((own) => ({ ...own, counted_cents: null, reason: null }));
  return (
    <PrintSheet paper="page" onPrinted={onPrinted}>
      <h1 className="text-xl">{nameDay(day)}</h1>
      <p className="mb-3">
        {close
          ? `Closed by ${nameOf(close.closed_by_email ?? '')}, ${formatDateTime(close.closed_at)}`
          : `Not closed. Printed ${formatDateTime(new Date().toISOString())}`}
      </p>
      {bridgesOf(shown, day).map(({ title, lines }) => (
        <table key={title} className="mb-4 w-full break-inside-avoid text-left text-xs">
          <caption className="border-b-2 border-black pb-1 text-left text-sm font-bold">{title}</caption>
          <tbody>
            {lines.map(({ label, cents, isTotal = false }) => (
              <tr key={label} className={isTotal ? 'border-t border-black/60 font-bold' : ''}>
                <th scope="row" className={`py-0.5 ${isTotal ? '' : 'pl-4 font-normal'}`}>
                  {label}
                </th>
                <td className="py-0.5 text-right tabular-nums">
                  {isTotal ? formatKes(cents) : describeStep(cents)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      ))}
      <table className="w-full break-inside-avoid text-left text-xs">
        <caption className="border-b-2 border-black pb-1 text-left text-sm font-bold">Cash by person</caption>
        <thead>
          <tr>
            {['Person', 'Taken', 'Given back', 'Expected', 'Counted', 'Difference', 'Why'].map((title) => (
              <th key={title} scope="col" className="py-1 pr-2">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {counted.map(
            ({ member, email, taken_cents, given_back_cents, expected_cents, counted_cents, reason }) => (
              <tr key={member} className="border-t border-black/40 align-top">
                <th scope="row" className="py-1 pr-2 font-normal">
                  {nameOf(email)}
                </th>
                <td className="py-1 pr-2">{formatKes(taken_cents)}</td>
                <td className="py-1 pr-2">{formatKes(given_back_cents)}</td>
                <td className="py-1 pr-2">{formatKes(expected_cents)}</td>
                <td className="py-1 pr-2">{counted_cents === null ? '______' : formatKes(counted_cents)}</td>
                <td className="py-1 pr-2">
                  {counted_cents === null ? '' : describeStep(counted_cents - expected_cents)}
                </td>
                <td className="py-1">{reason}</td>
              </tr>
            ),
          )}
        </tbody>
      </table>
      {counted.length === 0 ? <p className="text-xs">No cash on this day.</p> : null}
      {(close?.cash_due ?? cashDue).map((due) => (
        <p key={due.person} className="text-xs">
          {describeCashDue(due)}
        </p>
      ))}
      {close?.note ? <p className="mt-2">{close.note}</p> : null}
      {changes.length > 0 ? (
        <p className="mt-2 text-xs">
          Since the close:{' '}
          {changes
            .map(({ label, beforeCents, afterCents }) => `${label} ${describeStep(afterCents - beforeCents)}`)
            .join('; ')}
        </p>
      ) : null}
      <p className="mt-8 text-xs">Signed: ______________________________</p>
    </PrintSheet>
  );
}
