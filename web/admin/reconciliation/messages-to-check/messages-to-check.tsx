// Messages of M-PESA that cannot be settled by what can be read of them. Staff enter what they say, or note why they are no payment.
import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { Link } from 'react-router';
import { formatKes } from '../../../../domain/money.ts';
import { readAmountCents } from '../../../../domain/mpesa/amount.ts';
import { normaliseReceipt } from '../../../../domain/mpesa/receipt.ts';
import { readMpesaTime } from '../../../../domain/mpesa/time.ts';
import { Button } from '../../../ui/button.tsx';
import { Card } from '../../../ui/card.tsx';
import { TextField } from '../../../ui/field.tsx';
import { dataOf } from '../../data/table-answer.ts';
import { useSave } from '../../data/use-save.ts';
import { focusFirstProblem } from '../../dialogs/focus-first-problem.ts';
import { InlineFooter } from '../../dialogs/form-footer.tsx';
import { isAnotherScreen, useUnsaved } from '../../dialogs/use-unsaved.tsx';
import { useMember } from '../../layout/roles/use-member.tsx';
import { formatDateTime, formatForFile } from '../../ui/time/dates.ts';
import { reasonProblem, receiptProblem, receiptRefusal } from '../../ui/typed-problems.ts';
import { canBeEntered, describeMessageToCheck, type MessageToCheck, sourceOf } from './message-to-check.ts';

const shownAtOnce = 20;
const refresh = ['reconciliation', 'orders', 'deliveries', 'products', 'dashboard'];

/** The messages that wait, and their number; undefined until loaded. */
export function useMessagesToCheck() {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['reconciliation', 'to check'],
    queryFn: async ({ signal }) => {
      const { data: rows, count } = await tables
        .from('messages_to_check')
        .select('*, payments(order_id, orders(order_number))', { count: 'exact' })
        .is('resolution', null)
        .order('id')
        .limit(shownAtOnce)
        .throwOnError()
        .abortSignal(signal);
      return { rows: rows as MessageToCheck[], count: count ?? 0 };
    },
  }).data;
}

/** Nothing while no message waits. */
export function MessagesToCheck() {
  const data = useMessagesToCheck();
  if (!data || data.count === 0) return null;
  return (
    <Card
      title={`Messages to check (${data.count})`}
      description="M-PESA sent these, and the shop can’t work out what they mean for your money. The statement of that time doesn’t count as read until they are checked."
    >
      <ul className="grid gap-4">
        {data.rows.map((message) => (
          <li key={message.id} className="rounded-md border border-danger/40 bg-danger-soft/40 p-4">
            <Message message={message} />
          </li>
        ))}
      </ul>
      {data.count > data.rows.length ? (
        <p className="mt-3 text-sm text-ink-soft">{data.count - data.rows.length} more wait behind these.</p>
      ) : null}
    </Card>
  );
}

function Message({ message }: { message: MessageToCheck }) {
  const [form, setForm] = useState<'enter' | 'dismiss' | null>(null);
  const { title, text } = describeMessageToCheck(message);
  const order = message.payments?.orders;
  const readable = [
    message.received_cents ? formatKes(message.received_cents) : null,
    message.receipt,
    message.transacted_at ? formatDateTime(message.transacted_at) : null,
    message.reference ? `for ${message.reference}` : null,
  ].filter(Boolean);
  const isEnterable = canBeEntered(message);
  return (
    <article aria-label={title} className="grid gap-2">
      <h3 className="font-bold">{title}</h3>
      <p className="text-sm text-ink-soft">
        From M-PESA's {sourceOf(message)}, received {formatDateTime(message.received_at)}
        {readable.length > 0 ? `. It says: ${readable.join(', ')}` : ''}
        {order && message.payments?.order_id ? (
          <>
            {'. Order '}
            <Link className="font-semibold underline" to={`/admin/orders/${message.payments.order_id}`}>
              {order.order_number}
            </Link>
          </>
        ) : null}
      </p>
      <pre className="max-h-40 overflow-auto rounded-md border border-line bg-card p-3 text-xs break-words whitespace-pre-wrap">
        {message.body || '(nothing)'}
      </pre>
      <p className="text-sm">{text}</p>
      {form === 'enter' ? (
        <EnterForm message={message} onClose={() => setForm(null)} />
      ) : form === 'dismiss' ? (
        <DismissForm message={message} onClose={() => setForm(null)} />
      ) : (
        <div className="flex flex-wrap gap-3">
          {isEnterable ? <Button onClick={() => setForm('enter')}>Enter what it says</Button> : null}
          <Button tone="quiet" onClick={() => setForm('dismiss')}>
            {isEnterable ? 'Not a payment' : 'Dealt with'}
          </Button>
        </div>
      )}
    </article>
  );
}

interface FormProps {
  message: MessageToCheck;
  onClose(): void;
}

const outcomes: Record<string, string> = {
  paid: 'The payment is entered: the order is paid',
  paid_needs_review: 'The payment is entered, and its order needs your review',
  paid_twice: 'The payment is entered. Its order was paid already: this money is to be sent back',
  already_completed: 'The payment with this receipt is in the books already',
  unmatched: 'The payment is entered. Assign it to its order in the list of its day',
};

function EnterForm({ message, onClose }: FormProps) {
  const { tables } = useMember().staff;
  const [initial] = useState({
    receipt: message.receipt ?? '',
    amount: message.received_cents ? String(message.received_cents / 100) : '',
    time: formatForFile(message.transacted_at) ?? '',
  });
  const [typed, setTyped] = useState(initial);
  // A dialog of the list and another day leave the form as it is.
  const unsaved = useUnsaved(
    typed.receipt !== initial.receipt || typed.amount !== initial.amount || typed.time !== initial.time,
    isAnotherScreen,
  );
  const [problems, setProblems] = useState<Partial<Record<keyof typeof typed, string | undefined>>>({});
  const save = useSave<{ receipt: string; received_cents: number; transacted_at: string }, string>({
    write: async (input) =>
      dataOf(await tables.rpc('enter_message_to_check', { message_id: message.id, ...input })).outcome,
    success: (outcome) => outcomes[outcome] ?? 'The payment is entered',
    failure: 'Failed to enter the payment',
    isUnsafeToRepeat: true,
    refresh,
    onSuccess: onClose,
    isShownElsewhere: (error) => receiptRefusal(error) !== undefined,
  });
  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    const [receipt, cents, time] = [
      normaliseReceipt(typed.receipt),
      readAmountCents(typed.amount),
      readMpesaTime(typed.time),
    ];
    const found = {
      receipt: receiptProblem(typed.receipt),
      amount: cents === null || cents <= 0 ? 'Please enter the amount, such as 1,951.00' : undefined,
      time: time === null ? 'Please enter date and time, such as 2026-11-26 09:14' : undefined,
    };
    setProblems(found);
    if (receipt === null || cents === null || cents <= 0 || time === null) {
      focusFirstProblem(event.currentTarget);
      return;
    }
    save.mutate(
      { receipt, received_cents: cents, transacted_at: time.toISOString() },
      { onError: (error) => setProblems({ receipt: receiptRefusal(error) }) },
    );
  }
  const field = (name: keyof typeof typed) => ({
    name,
    required: true,
    autoComplete: 'off',
    value: typed[name],
    onChange: (event: { target: { value: string } }) => setTyped({ ...typed, [name]: event.target.value }),
    disabled: save.isPending,
    problem: problems[name],
  });
  return (
    <form onSubmit={submit} noValidate aria-label="Enter what it says" className="grid gap-3 sm:grid-cols-3">
      <TextField
        label="M-PESA receipt"
        autoFocus
        autoCapitalize="characters"
        spellCheck={false}
        maxLength={30}
        {...field('receipt')}
      />
      <TextField label="Amount that came (KES)" inputMode="decimal" maxLength={20} {...field('amount')} />
      <TextField
        label="When M-PESA received it"
        hint="In Nairobi, such as 2026-11-26 09:14"
        maxLength={40}
        {...field('time')}
      />
      <div className="sm:col-span-3">
        <InlineFooter
          unsaved={unsaved}
          label={save.isPending ? 'Saving...' : 'Enter payment'}
          isBusy={save.isPending}
          onCancel={onClose}
        />
      </div>
    </form>
  );
}

function DismissForm({ message, onClose }: FormProps) {
  const { tables } = useMember().staff;
  const [note, setNote] = useState('');
  const unsaved = useUnsaved(note.trim() !== '', isAnotherScreen);
  const [problem, setProblem] = useState<string>();
  const save = useSave<string, unknown>({
    write: async (reason) =>
      dataOf(await tables.rpc('dismiss_message_to_check', { message_id: message.id, note: reason })),
    success: 'The message is checked',
    failure: 'Failed to save your note',
    refresh,
    onSuccess: onClose,
  });
  function submit(event: FormEvent) {
    event.preventDefault();
    const found = reasonProblem(note);
    setProblem(found);
    if (!found) save.mutate(note);
  }
  const isEnterable = canBeEntered(message);
  return (
    <form onSubmit={submit} noValidate aria-label="Why it is no payment" className="grid gap-3">
      <TextField
        label={isEnterable ? 'Why it is no payment to you' : 'How you dealt with it'}
        name="note"
        required
        autoFocus
        autoComplete="off"
        maxLength={200}
        value={note}
        onChange={(event) => setNote(event.target.value)}
        disabled={save.isPending}
        problem={problem}
      />
      <InlineFooter
        unsaved={unsaved}
        label={save.isPending ? 'Saving...' : 'Save'}
        isBusy={save.isPending}
        onCancel={onClose}
      />
    </form>
  );
}
