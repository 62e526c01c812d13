// Change of a payment: owed to the customer, or sent back in part outside the shop. Shows the notes and adds one.

import { type FormEvent, useState } from 'react';
import { formatKes } from '../../../../domain/money.ts';
import type { ChangeNoteKind } from '../../../../supabase/types.ts';
import { Button } from '../../../ui/button.tsx';
import { SelectField, TextField } from '../../../ui/field.tsx';
import { keysOf } from '../../data/keys-of.ts';
import { dataOf, TableProblem } from '../../data/table-answer.ts';
import { useSave } from '../../data/use-save.ts';
import { useMember } from '../../layout/use-member.tsx';
import { labelOf } from '../../status/label-of.ts';
import { isOpenRefund } from '../../status/states.ts';
import { formatDateTime } from '../../ui/dates.ts';
import { reasonProblem, receiptProblem, receiptRefusal } from '../refunds/refund-problems.ts';
import type { PaymentOfOrder } from '../refunds/refund-queries.ts';
import { readAmount } from './read-amount.ts';

const kinds: Record<ChangeNoteKind, string> = {
  returned: 'Sent back to the customer',
  to_return: 'To send back to the customer',
  credit: 'Credit owed to the customer',
};

type Note = Pick<PaymentOfOrder['change_notes'][number], 'kind' | 'amount_cents'>;

/**
 * Sums of a payment's notes of change, in cents, as `private.change_of` has them.
 * @returns `owed`: what the shop still owes; `returned`: what went back
 */
export function changeOf(notes: readonly Note[]): { owed: number; returned: number } {
  const sum = (isReturned: boolean) =>
    notes
      .filter(({ kind }) => (kind === 'returned') === isReturned)
      .reduce((cents, { amount_cents }) => cents + amount_cents, 0);
  const returned = sum(true);
  return { owed: Math.max(sum(false) - returned, 0), returned };
}

export function ChangeNotes({ payment }: { payment: PaymentOfOrder }) {
  const [isOpen, setOpen] = useState(false);
  const isGoingBack =
    payment.refunded_at !== null || payment.refunds.some(({ status }) => isOpenRefund(status));
  const { change_notes: notes } = payment;
  const { owed, returned } = changeOf(notes);
  if (payment.status !== 'completed' || (notes.length === 0 && isGoingBack)) return null;
  return (
    <div className="mt-2 grid justify-items-start gap-2">
      {notes.length > 0 ? (
        <div className="grid gap-1 rounded-md border border-line bg-paper-deep px-3 py-2">
          <p className="font-semibold">
            {[
              owed > 0 && !isGoingBack ? `${formatKes(owed)} owed to the customer` : '',
              returned > 0 ? `${formatKes(returned)} sent back as change` : '',
            ]
              .filter(Boolean)
              .join(', ') || 'No change is owed'}
          </p>
          <ul className="grid gap-1">
            {notes
              .toSorted((one, other) => one.noted_at.localeCompare(other.noted_at))
              .map(({ id, kind, amount_cents, receipt, note, noted_by_email, noted_at }) => (
                <li key={id} className="text-ink-soft wrap-anywhere">
                  {labelOf(kinds, kind)}: {formatKes(amount_cents)}
                  {receipt ? `, receipt ${receipt}` : ''}
                  {note ? `, “${note}”` : ''} · {noted_by_email ?? 'Staff'} · {formatDateTime(noted_at)}
                </li>
              ))}
          </ul>
        </div>
      ) : null}
      {isGoingBack ? null : isOpen ? (
        <ChangeForm payment={payment} owed={owed} onClose={() => setOpen(false)} />
      ) : (
        <Button tone="quiet" onClick={() => setOpen(true)}>
          Note change
        </Button>
      )}
    </div>
  );
}

interface ChangeFormProps {
  payment: PaymentOfOrder;
  owed: number;
  onClose(): void;
}

function ChangeForm({ payment, owed, onClose }: ChangeFormProps) {
  const { tables } = useMember().staff;
  const [kind, setKind] = useState<ChangeNoteKind>('returned');
  const [shillings, setShillings] = useState(owed > 0 ? String(owed / 100) : '');
  const [receipt, setReceipt] = useState('');
  const [note, setNote] = useState('');
  const [problems, setProblems] = useState<{ shillings?: string; receipt?: string; note?: string }>({});
  const save = useSave({
    write: async (amount_cents: number) =>
      dataOf(
        await tables.rpc('note_change', {
          payment_id: payment.id,
          kind,
          amount_cents,
          receipt: kind === 'returned' && receipt.trim() ? receipt : null,
          note: note.trim() || null,
        }),
      ),
    success: 'The change is noted',
    failure: 'Failed to note the change',
    isUnsafeToRepeat: true,
    refresh: ['orders', 'reconciliation', 'dashboard'],
    onSuccess: onClose,
    isShownElsewhere: (error) => problemOf(error) !== null,
  });
  function submit(event: FormEvent) {
    event.preventDefault();
    const cents = readAmount(shillings);
    const found: typeof problems = {};
    if (cents === null) found.shillings = 'Please enter the amount in whole shillings';
    const wrongReceipt = kind === 'returned' && receipt.trim() ? receiptProblem(receipt) : undefined;
    if (wrongReceipt) found.receipt = wrongReceipt;
    const wrongNote = note.trim() ? reasonProblem(note) : undefined;
    if (wrongNote) found.note = wrongNote;
    setProblems(found);
    if (cents === null || wrongReceipt || wrongNote) return;
    save.mutate(cents, { onError: (error) => setProblems(problemOf(error) ?? {}) });
  }
  return (
    <form
      onSubmit={submit}
      noValidate
      aria-label="Note change"
      className="grid w-full gap-3 border-t border-line pt-3"
    >
      <p className="text-ink-soft">The shop moves no money: note what you sent, or what you owe.</p>
      <SelectField
        label="Change"
        value={kind}
        disabled={save.isPending}
        onChange={(event) => setKind(keysOf(kinds).find((each) => each === event.target.value) ?? kind)}
      >
        {Object.entries(kinds).map(([value, words]) => (
          <option key={value} value={value}>
            {words}
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
      />
      {kind === 'returned' ? (
        <TextField
          label="M-PESA receipt of sending it back"
          hint="If there is one"
          autoComplete="off"
          autoCapitalize="characters"
          spellCheck={false}
          maxLength={20}
          value={receipt}
          disabled={save.isPending}
          onChange={(event) => setReceipt(event.target.value)}
          problem={problems.receipt}
        />
      ) : null}
      <TextField
        label="Note"
        hint="Optional, 3 to 200 characters"
        maxLength={200}
        autoComplete="off"
        value={note}
        disabled={save.isPending}
        onChange={(event) => setNote(event.target.value)}
        problem={problems.note}
      />
      <div className="flex flex-wrap gap-3">
        <Button type="submit" isBusy={save.isPending}>
          Note change
        </Button>
        <Button tone="quiet" disabled={save.isPending} onClick={onClose}>
          Cancel
        </Button>
      </div>
    </form>
  );
}

/** The database's refusal, beside its field; null for an error of another kind. */
function problemOf(error: Error): { shillings?: string; receipt?: string } | null {
  const wrongReceipt = receiptRefusal(error);
  if (wrongReceipt) return { receipt: wrongReceipt };
  return error instanceof TableProblem && error.details === 'change_exceeds_payment'
    ? { shillings: error.message }
    : null;
}
