// Cash by person, and the close of the day: what was counted, why it differs, and what has changed since.
import { type FormEvent, useId, useRef, useState } from 'react';
import { formatKes } from '../../../domain/money.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { TextField } from '../../ui/field.tsx';
import { Notice } from '../../ui/notice.tsx';
import { ConfirmDialog } from '../dialogs/confirm-dialog.tsx';
import { useUnsaved } from '../dialogs/use-unsaved.tsx';
import { useShortNameOf } from '../ui/staff-name.tsx';
import { formatDateTime } from '../ui/time/dates.ts';
import { nameDay } from '../ui/time/nairobi-day.ts';
import { describeStep } from './bridge-table.tsx';
import { CashDueList, describeCashDue } from './cash-due.tsx';
import { type CountProblem, notCounted, readCounted, readCounts, type TypedCount } from './count-cash.ts';
import { changesSince, type DayTotals } from './day-bridge.ts';
import { type CashDue, type CashOfMember, type Close, type CountedCash, useCloseDay } from './day-queries.ts';

interface CashCardProps {
  day: string;
  today: string;
  cash: readonly CashOfMember[];
  cashDue: readonly CashDue[];
  close: Close | null;
}

export function CashCard({ day, today, cash, cashDue, close }: CashCardProps) {
  return (
    <Card
      title="Cash by person"
      description={
        close
          ? 'As it was counted when the day was closed.'
          : 'What each person should have in hand: cash taken, less cash given back. Without the change that the day began with.'
      }
    >
      {close ? (
        <ClosedCash close={close} />
      ) : day > today ? (
        <p className="text-ink-soft">This day has not begun yet.</p>
      ) : (
        <CloseForm key={day} day={day} isToday={day === today} cash={cash} cashDue={cashDue} />
      )}
    </Card>
  );
}

/** Such as "Brian 1,422, customers 711". */
const describeHandedOver = ({ handed_over }: CashOfMember): string =>
  handed_over
    .map(({ person, cents }) => `${(person as string | null) ?? 'customers'} ${formatKes(cents)}`)
    .join(', ');

const label = 'text-xs font-semibold text-ink-soft';

function CloseForm({
  day,
  isToday,
  cash,
  cashDue,
}: Pick<CashCardProps, 'day' | 'cash' | 'cashDue'> & { isToday: boolean }) {
  const [typed, setTyped] = useState<Record<string, TypedCount>>({});
  const [note, setNote] = useState('');
  const [problem, setProblem] = useState<CountProblem | null>(null);
  const [counts, setCounts] = useState<CountedCash[] | null>(null);
  const nameOf = useShortNameOf();
  const form = useRef<HTMLFormElement>(null);
  const save = useCloseDay(day, () => {
    unsaved.note(false);
    setCounts(null);
  });
  const isTyped = note.trim() !== '' || Object.values(typed).some(({ counted, reason }) => counted || reason);
  const unsaved = useUnsaved(isTyped, (from, to) => from.pathname !== to.pathname);
  const stillDue = cashDue.filter(({ open_orders }) => open_orders > 0);
  const expected = cash.reduce((sum, { expected_cents }) => sum + expected_cents, 0);

  function submit(event: FormEvent) {
    event.preventDefault();
    const read = readCounts(cash, typed);
    if ('problem' in read) {
      setProblem(read.problem);
      form.current
        ?.querySelector<HTMLInputElement>(`[name="${read.problem.field}-${read.problem.member}"]`)
        ?.focus();
      return;
    }
    setProblem(null);
    setCounts(read.counts);
  }
  const type = (member: string, change: Partial<TypedCount>) => {
    setTyped((all) => ({ ...all, [member]: { ...notCounted, ...all[member], ...change } }));
    if (problem?.member === member) setProblem(null);
  };

  return (
    <form ref={form} noValidate onSubmit={submit} className="grid gap-4">
      {cash.length === 0 ? (
        <p className="text-ink-soft">No cash was taken or given back on this day.</p>
      ) : (
        <ul className="grid gap-4">
          {cash.map((own) => (
            <CountOfMember
              key={own.member}
              cash={own}
              typed={typed[own.member] ?? notCounted}
              problem={problem?.member === own.member ? problem : null}
              onType={(change) => type(own.member, change)}
            />
          ))}
        </ul>
      )}
      {cash.length > 1 ? (
        <p className="flex justify-between border-t border-line-strong/60 pt-2 font-semibold">
          Expected in all <span className="tabular-nums">{formatKes(expected)}</span>
        </p>
      ) : null}
      <CashDueList cashDue={cashDue} />
      <TextField
        label="Note (optional)"
        value={note}
        maxLength={200}
        onChange={({ target }) => setNote(target.value)}
      />
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <Button type="submit" isBusy={save.isPending}>
          Close the day
        </Button>
        {isToday ? (
          <p className="min-w-0 flex-1 basis-56 text-sm text-ink-soft">
            The day goes on: what comes in later is shown as a change since the close.
          </p>
        ) : null}
      </div>
      <ConfirmDialog
        open={counts !== null}
        title={`Close ${nameDay(day)}?`}
        text="The totals and the counted cash are stored as they are now. A closed day cannot be changed or opened again."
        confirm="Close the day"
        tone="leaf"
        isBusy={save.isPending}
        // After a refusal the counts are checked against the current cash.
        onConfirm={() => counts && save.mutate({ counts, note }, { onError: () => setCounts(null) })}
        onCancel={() => setCounts(null)}
      >
        {counts?.some(({ counted_cents, expected_cents }) => counted_cents !== expected_cents) ? (
          <ul className="grid gap-1">
            {counts.map(({ member, expected_cents, counted_cents, reason }) =>
              counted_cents === expected_cents ? null : (
                <li key={member}>
                  <strong>{nameOf(cash.find((own) => own.member === member)?.email ?? '')}</strong>:{' '}
                  {describeDifference(counted_cents - expected_cents)}. {reason}
                </li>
              ),
            )}
          </ul>
        ) : null}
        {stillDue.length > 0 ? (
          <div className="grid gap-1 not-first:mt-3">
            <p>Cash that is not received yet counts on the day on which it is received:</p>
            <ul>
              {stillDue.map((due) => (
                <li key={due.person} className="font-semibold">
                  {describeCashDue(due)}
                </li>
              ))}
            </ul>
          </div>
        ) : null}
      </ConfirmDialog>
      <ConfirmDialog
        open={unsaved.isBlocked}
        title="Leave without closing the day?"
        text="What you counted is not saved."
        confirm="Leave"
        dismiss="Stay"
        hasOwnEntry={false}
        onConfirm={unsaved.leave}
        onCancel={unsaved.stay}
      />
    </form>
  );
}

const describeDifference = (cents: number): string =>
  cents === 0 ? 'Exact' : `${formatKes(Math.abs(cents))} ${cents > 0 ? 'too much' : 'missing'}`;

interface CountOfMemberProps {
  cash: CashOfMember;
  typed: TypedCount;
  problem: CountProblem | null;
  onType(change: Partial<TypedCount>): void;
}

function CountOfMember({ cash, typed, problem, onType }: CountOfMemberProps) {
  const { member, email, taken_cents, given_back_cents, expected_cents } = cash;
  const id = useId();
  const nameOf = useShortNameOf();
  const counted = readCounted(typed.counted);
  const difference = counted === null ? null : counted - expected_cents;
  return (
    <li aria-labelledby={id} className="grid gap-2 border-t border-line pt-3 first:border-0 first:pt-0">
      <div className="flex flex-wrap items-baseline justify-between gap-x-4">
        <p id={id}>
          <span title={email} className="font-semibold">
            {nameOf(email)}
          </span>
        </p>
        <p className="font-semibold tabular-nums">{formatKes(expected_cents)} expected</p>
        <p className="basis-full text-sm text-ink-soft">
          Took {formatKes(taken_cents)}
          {taken_cents > 0 ? ` from ${describeHandedOver(cash)}` : ''}
          {given_back_cents > 0 ? `, gave back ${formatKes(given_back_cents)}` : ''}
        </p>
      </div>
      <div className="grid grid-cols-[minmax(0,1fr)_minmax(0,1fr)] items-start gap-3">
        <TextField
          label="Counted (KES)"
          name={`counted-${member}`}
          aria-describedby={id}
          inputMode="numeric"
          autoComplete="off"
          value={typed.counted}
          problem={problem?.field === 'counted' ? problem.text : undefined}
          onChange={({ target }) => onType({ counted: target.value })}
        />
        <p className="grid gap-1.5">
          <span className="text-sm font-semibold">Difference</span>
          <output
            className={`flex min-h-12 items-center font-semibold ${difference ? 'text-danger' : 'text-ink-soft'}`}
          >
            {difference === null ? '–' : describeDifference(difference)}
          </output>
        </p>
      </div>
      {difference ? (
        <TextField
          label="Why"
          name={`reason-${member}`}
          value={typed.reason}
          maxLength={200}
          required
          placeholder="Wrong change given"
          problem={problem?.field === 'reason' ? problem.text : undefined}
          onChange={({ target }) => onType({ reason: target.value })}
        />
      ) : null}
    </li>
  );
}

function ClosedCash({ close: { counts, cash_due, note } }: { close: Close }) {
  const nameOf = useShortNameOf();
  return (
    <div className="grid gap-3">
      {counts.length === 0 ? <p className="text-ink-soft">There was no cash on this day.</p> : null}
      <ul className="grid gap-3">
        {counts.map(({ member, member_email, expected_cents, counted_cents, reason }) => (
          <li key={member} className="grid gap-1 border-t border-line pt-3 first:border-0 first:pt-0">
            <p title={member_email ?? undefined} className="font-semibold">
              {nameOf(member_email ?? '')}
            </p>
            <dl className="grid grid-cols-3 gap-3 tabular-nums">
              <div>
                <dt className={label}>Expected</dt>
                <dd>{formatKes(expected_cents)}</dd>
              </div>
              <div>
                <dt className={label}>Counted</dt>
                <dd>{formatKes(counted_cents)}</dd>
              </div>
              <div>
                <dt className={label}>Difference</dt>
                <dd className={counted_cents === expected_cents ? '' : 'font-semibold text-danger'}>
                  {describeDifference(counted_cents - expected_cents)}
                </dd>
              </div>
            </dl>
            {reason ? <p className="text-sm text-ink-soft">{reason}</p> : null}
          </li>
        ))}
      </ul>
      <CashDueList cashDue={cash_due} />
      {note ? <p className="border-t border-line pt-3 text-sm">{note}</p> : null}
    </div>
  );
}

/** Who closed the day, and what would be different now. */
export function ClosedNotice({ close, totals }: { close: Close; totals: DayTotals }) {
  const changes = changesSince(close.totals, totals);
  const nameOf = useShortNameOf();
  return (
    <Notice
      tone={changes.length > 0 ? 'info' : 'success'}
      title={`Closed by ${nameOf(close.closed_by_email ?? '')}, ${formatDateTime(close.closed_at)}`}
    >
      {changes.length === 0 ? (
        'Nothing has changed since.'
      ) : (
        <>
          Since the close:{' '}
          {changes
            .map(
              ({ label: total, beforeCents, afterCents }) =>
                `${total} ${describeStep(afterCents - beforeCents)} (${formatKes(beforeCents)} at the close)`,
            )
            .join('; ')}
          .
        </>
      )}
    </Notice>
  );
}
