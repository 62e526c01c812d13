// What of a payment is owed to its customer, went back in part outside the shop, or paid another order. Shows the notes and adds one.

import { type FormEvent, useState } from 'react';
import { formatKes } from '../../../../domain/money.ts';
import type { ChangeNoteKind, ChangeNoteWay } from '../../../../supabase/types.ts';
import { Button } from '../../../ui/button.tsx';
import { SelectField, TextField } from '../../../ui/field.tsx';
import { keysOf } from '../../data/keys-of.ts';
import { dataOf, TableProblem } from '../../data/table-answer.ts';
import { useSave } from '../../data/use-save.ts';
import { focusFirstProblem } from '../../dialogs/focus-first-problem.ts';
import { InlineFooter } from '../../dialogs/form-footer.tsx';
import { useUnsaved } from '../../dialogs/use-unsaved.tsx';
import { useMember } from '../../layout/roles/use-member.tsx';
import { labelOf } from '../../status/label-of.ts';
import { isOpenRefund } from '../../status/states.ts';
import { Choices } from '../../ui/choices.tsx';
import { NameInHistory } from '../../ui/staff-name.tsx';
import { formatDateTime } from '../../ui/time/dates.ts';
import { reasonProblem, receiptProblem, receiptRefusal } from '../../ui/typed-problems.ts';
import type { WholeOrder } from '../order-queries.ts';
import type { PaymentOfOrder } from '../refunds/refund-queries.ts';
import { changeOf } from './change-of.ts';
import { readAmount } from './read-amount.ts';

const kinds: Record<ChangeNoteKind, string> = {
  returned: 'Sent back to the customer',
  to_return: 'To send back to the customer',
  credit: 'Credit owed to the customer',
  used: 'Paid another order',
  use_taken_back: 'Credit again: it paid no other order after all',
  not_owed: 'Not owed after all',
};
const ways: readonly { value: ChangeNoteWay; label: string }[] = [
  { value: 'mpesa', label: 'By M-PESA, by hand' },
  { value: 'cash', label: 'In cash' },
];

/** What a member notes: `part` of the price went back, or what was owed; or something is owed from now on. */
const acts = {
  part: 'Part of the price went back',
  returned: 'What we owed went back',
  credit: 'We owe it as credit',
  to_return: 'We will send it back',
} as const;
type Act = keyof typeof acts;

interface ChangeNotesProps {
  order: Pick<WholeOrder, 'status' | 'payment_status'>;
  payment: PaymentOfOrder;
}

export function ChangeNotes({ order, payment }: ChangeNotesProps) {
  const [isOpen, setOpen] = useState(false);
  const isGoingBack =
    payment.refunded_at !== null || payment.refunds.some(({ status }) => isOpenRefund(status));
  const { change_notes: notes } = payment;
  const { owed, returned, used } = changeOf(notes);
  if (payment.status !== 'completed' || (notes.length === 0 && isGoingBack)) return null;
  return (
    <div className="mt-2 grid justify-items-start gap-2">
      {notes.length > 0 ? (
        <div className="grid gap-1 rounded-md border border-line bg-paper-deep px-3 py-2">
          <p className="font-semibold">
            {[
              owed > 0 && !isGoingBack ? `${formatKes(owed)} owed to the customer` : '',
              used > 0 ? `${formatKes(used)} paid another order` : '',
              returned > 0 ? `${formatKes(returned)} went back` : '',
            ]
              .filter(Boolean)
              .join(', ') || 'No change is owed'}
          </p>
          {owed > 0 && !isGoingBack && payment.is_unconfirmed ? (
            <p>
              It pays no other order until M-PESA reports {payment.receipt}, or you keep that payment in
              Reconciliation.
            </p>
          ) : null}
          <ul className="grid gap-1">
            {notes
              .toSorted((one, other) => one.noted_at.localeCompare(other.noted_at))
              .map(
                ({
                  id,
                  kind,
                  amount_cents,
                  receipt,
                  note,
                  noted_by_email,
                  noted_at,
                  way,
                  is_part_refund,
                }) => (
                  <li key={id} className="text-ink-soft wrap-anywhere">
                    {is_part_refund ? 'Part refund' : labelOf(kinds, kind)}: {formatKes(amount_cents)}
                    {receipt ? `, receipt ${receipt}` : way === 'cash' ? ', in cash' : ''}
                    {note ? `, “${note}”` : ''} · <NameInHistory email={noted_by_email} otherwise="Staff" /> ·{' '}
                    {formatDateTime(noted_at)}
                  </li>
                ),
              )}
          </ul>
        </div>
      ) : null}
      {isGoingBack ? null : isOpen ? (
        <ChangeForm
          payment={payment}
          acts={actsFor(order, payment, owed)}
          owed={owed}
          onClose={() => setOpen(false)}
        />
      ) : (
        <Button tone="quiet" onClick={() => setOpen(true)}>
          Part refund or change
        </Button>
      )}
    </div>
  );
}

/** What is owed goes back first; only of a payment that pays its order a part can go back. */
const actsFor = (order: ChangeNotesProps['order'], payment: PaymentOfOrder, owed: number): Act[] =>
  keysOf(acts).filter((act) =>
    act === 'part'
      ? order.payment_status === 'paid' && order.status !== 'cancelled' && !payment.needs_refund
      : act !== 'returned' || owed > 0,
  );

interface ChangeFormProps {
  payment: PaymentOfOrder;
  /** What can be noted now. */
  acts: readonly Act[];
  owed: number;
  onClose(): void;
}

interface Problems {
  shillings?: string;
  receipt?: string;
  note?: string;
  way?: string;
}

function ChangeForm({ payment, acts: possible, owed, onClose }: ChangeFormProps) {
  const { tables } = useMember().staff;
  // As it was when the form opened: after a lost answer, a live change must not let the same note through again.
  const [seenNotes] = useState(payment.change_notes.length);
  const [chosen, setAct] = useState<Act>(owed > 0 ? 'returned' : (possible[0] ?? 'credit'));
  const act = possible.includes(chosen) ? chosen : (possible[0] ?? 'credit');
  const [initial] = useState(owed > 0 ? String(owed / 100) : '');
  const [shillings, setShillings] = useState(initial);
  const [way, setWay] = useState<ChangeNoteWay>();
  const [receipt, setReceipt] = useState('');
  const [note, setNote] = useState('');
  const [problems, setProblems] = useState<Problems>({});
  const unsaved = useUnsaved(shillings !== initial || receipt !== '' || note !== '');
  const wentBack = act === 'part' || act === 'returned';
  const save = useSave({
    write: async (amount_cents: number) => {
      const given = {
        payment_id: payment.id,
        amount_cents,
        receipt: way === 'mpesa' ? receipt : null,
        seen_notes: seenNotes,
      };
      return dataOf(
        act === 'part'
          ? await tables.rpc('refund_part', { ...given, way: way ?? 'mpesa', reason: note })
          : await tables.rpc('note_change', {
              ...given,
              kind: act,
              note: note.trim() || null,
              ...(act === 'returned' ? { way: way ?? 'mpesa' } : { receipt: null }),
            }),
      );
    },
    success: (_, cents) =>
      wentBack ? `${formatKes(cents)} sent back is noted` : `${formatKes(cents)} owed is noted`,
    failure: 'Failed to note it',
    isUnsafeToRepeat: true,
    refresh: ['orders', 'reconciliation', 'dashboard', 'kept', 'customers'],
    onSuccess() {
      unsaved.note(false);
      onClose();
    },
    isShownElsewhere: (error) => problemOf(error) !== null,
  });
  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    if (save.isPending) return;
    const cents = readAmount(shillings);
    const wrongReceipt = wentBack && way === 'mpesa' ? receiptProblem(receipt) : undefined;
    const wrongNote = act === 'part' || note.trim() ? reasonProblem(note) : undefined;
    setProblems({
      ...(cents === null ? { shillings: 'Please enter the amount in whole shillings' } : {}),
      ...(wentBack && !way ? { way: 'Choose how it went back' } : {}),
      ...(wrongReceipt ? { receipt: wrongReceipt } : {}),
      ...(wrongNote ? { note: wrongNote } : {}),
    });
    if (cents === null || wrongReceipt || wrongNote || (wentBack && !way)) {
      focusFirstProblem(event.currentTarget);
      return;
    }
    save.mutate(cents, { onError: (error) => setProblems(problemOf(error) ?? {}) });
  }
  return (
    <form
      onSubmit={submit}
      noValidate
      aria-label="Part refund or change"
      className="grid w-full gap-3 border-t border-line pt-3"
    >
      <p className="text-ink-soft">
        The shop moves no money here: M-PESA sends whole payments back only. Send a part in M-PESA's own
        portal or give it in cash, then note it.
      </p>
      <SelectField
        label="What happened"
        value={act}
        disabled={save.isPending}
        onChange={({ target }) => {
          const next = possible.find((each) => each === target.value) ?? act;
          setAct(next);
          setProblems({});
        }}
      >
        {possible.map((each) => (
          <option key={each} value={each}>
            {acts[each]}
          </option>
        ))}
      </SelectField>
      <TextField
        label="Amount (KES)"
        required
        inputMode="numeric"
        autoComplete="off"
        maxLength={16}
        value={shillings}
        disabled={save.isPending}
        onChange={(event) => setShillings(event.target.value)}
        problem={problems.shillings}
        {...(owed > 0 ? { hint: `${formatKes(owed)} is owed.` } : {})}
      />
      {wentBack ? (
        <Choices
          label="How it went back"
          options={ways}
          value={way}
          onChoose={(value) => setWay(value)}
          problem={problems.way}
        />
      ) : null}
      {wentBack && way === 'mpesa' ? (
        <TextField
          label="M-PESA receipt of sending it back"
          required
          autoComplete="off"
          autoCapitalize="characters"
          spellCheck={false}
          maxLength={20}
          value={receipt}
          disabled={save.isPending}
          onChange={(event) => setReceipt(event.target.value)}
          problem={problems.receipt}
          hint="The customer gets a message with it."
        />
      ) : null}
      <TextField
        label={act === 'part' ? 'Reason' : 'Note'}
        required={act === 'part'}
        hint={
          act === 'part' ? 'For your books, such as: a drink was missing' : 'Optional, 3 to 200 characters'
        }
        maxLength={200}
        autoComplete="off"
        value={note}
        disabled={save.isPending}
        onChange={(event) => setNote(event.target.value)}
        problem={problems.note}
      />
      <InlineFooter
        unsaved={unsaved}
        label={wentBack ? 'It went back' : 'Note it'}
        isBusy={save.isPending}
        onCancel={onClose}
      />
    </form>
  );
}

/** The database's refusal, beside its field; null for an error of another kind. */
function problemOf(error: Error): Problems | null {
  const wrongReceipt = receiptRefusal(error);
  if (wrongReceipt) return { receipt: wrongReceipt };
  return error instanceof TableProblem &&
    ['change_exceeds_payment', 'change_exceeds_owed', 'payment_changed'].includes(error.details)
    ? { shillings: error.message }
    : null;
}
