// Cash of an order: agreed for the door, received, noted by mistake, and given back.
import { type FormEvent, useState } from 'react';
import { isCashDue } from '../../../../domain/deliveries/delivery-status.ts';
import { chargeCents, formatKes } from '../../../../domain/money.ts';
import { Button } from '../../../ui/button.tsx';
import { TextField } from '../../../ui/field.tsx';
import { dataOf } from '../../data/table-answer.ts';
import { useSave } from '../../data/use-save.ts';
import { focusFirstProblem } from '../../dialogs/focus-first-problem.ts';
import { InlineFooter } from '../../dialogs/form-footer.tsx';
import { useUnsaved } from '../../dialogs/use-unsaved.tsx';
import { useMay, useMember } from '../../layout/roles/use-member.tsx';
import { useSettings } from '../../settings/settings-queries.ts';
import { Choices } from '../../ui/choices.tsx';
import { reasonProblem } from '../../ui/typed-problems.ts';
import type { WholeOrder } from '../order-queries.ts';
import { isRefundable, type PaymentOfOrder } from '../refunds/refund-queries.ts';
import { isSettling, useResolvedByOther } from '../use-resolved-by-other.ts';
import { canBePaidInCash } from './can-be-paid.ts';
import { leftOf } from './change-of.ts';
import { useCreditFor } from './credit.tsx';
import { readAmount } from './read-amount.ts';
import { isReasonRefused, ReasonForm } from './reason-form.tsx';

const touchedByCash = ['orders', 'deliveries', 'products', 'dashboard', 'kept', 'customers'];

/** For an unpaid order: agree on cash at the door, and note that it came. */
export function CashOfOrder({ order }: { order: WholeOrder }) {
  const { tables } = useMember().staff;
  const takesCash = useSettings().data?.takes_cash ?? false;
  const [isOpen, setOpen] = useState(false);
  const agree = useSave<void>({
    write: async () => dataOf(await tables.rpc('agree_cash', { order_id: order.id })),
    success: `Cash at the door is agreed: ${order.order_number} can be prepared`,
    failure: 'Failed to agree on cash',
    refresh: touchedByCash,
  });
  if (!takesCash || order.awaits_agreement || !canBePaidInCash(order)) return null;
  if (isOpen) return <ReceiveCash order={order} onClose={() => setOpen(false)} />;
  return (
    <div className="mt-3 flex flex-wrap gap-3">
      {isCashDue(order) || order.is_collected ? null : (
        <Button tone="quiet" isBusy={agree.isPending} onClick={() => agree.mutate()}>
          Cash at the door
        </Button>
      )}
      <Button tone={isCashDue(order) ? 'leaf' : 'quiet'} onClick={() => setOpen(true)}>
        Receive cash
      </Button>
    </div>
  );
}

const surplus = [
  { value: 'credit', label: 'Owed to the customer' },
  { value: 'tip', label: 'A tip' },
] as const;

function ReceiveCash({ order, onClose }: { order: WholeOrder; onClose(): void }) {
  const { tables } = useMember().staff;
  const charge = chargeCents(order.total_amount);
  const rider = order.delivery?.delivery_person ?? '';
  // What the rider got at the door, as the rider said.
  const expected = String((order.delivery?.collected_cents ?? charge) / 100);
  const [shillings, setShillings] = useState(expected);
  const [person, setPerson] = useState(rider);
  const [note, setNote] = useState('');
  const [kept, setKept] = useState<(typeof surplus)[number]['value']>();
  const [shortfall, setShortfall] = useState<'from_credit' | 'forgiven'>('from_credit');
  const [problems, setProblems] = useState<{ amount?: string; note?: string; kept?: string }>({});
  const cents = readAmount(shillings);
  const difference = cents === null ? 0 : cents - charge;
  // Beside cash, only what is owed from other orders.
  const credit = useCreditFor(order).fromOthersCents;
  const isFromCredit = difference < 0 && credit >= -difference && shortfall === 'from_credit';
  const unsaved = useUnsaved(shillings !== expected || person !== rider || note !== '');
  const save = useSave<void>({
    write: async () =>
      dataOf(
        await tables.rpc('receive_cash', {
          order_id: order.id,
          received_cents: cents ?? 0,
          received_from: person.trim() || null,
          difference: isFromCredit
            ? 'from_credit'
            : difference < 0
              ? 'forgiven'
              : difference > 0
                ? (kept ?? null)
                : null,
          note: note.trim() || null,
        }),
      ),
    success: `${formatKes(cents ?? 0)} in cash received${person.trim() ? ` from ${person.trim()}` : ''}: ${order.order_number} is paid`,
    failure: 'Failed to note the cash',
    isUnsafeToRepeat: true,
    refresh: touchedByCash,
    onSuccess() {
      unsaved.note(false);
      onClose();
    },
  });
  useResolvedByOther({ orderId: order.id, isOpen: !isSettling(save), isOffered: canBePaidInCash });

  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    if (save.isPending) return;
    const found = {
      ...(cents === null ? { amount: 'Enter whole shillings, such as 711' } : {}),
      ...(difference < 0 && !isFromCredit && reasonProblem(note)
        ? { note: reasonProblem(note) as string }
        : {}),
      ...(difference > 0 && !kept ? { kept: 'Choose what happens with the rest' } : {}),
    };
    setProblems(found);
    if (Object.keys(found).length > 0) focusFirstProblem(event.currentTarget);
    else save.mutate();
  }

  return (
    <form
      onSubmit={submit}
      noValidate
      aria-label="Receive cash"
      className="mt-4 grid gap-3 border-t border-line pt-4"
    >
      <TextField
        label="Cash received (KES)"
        name="shillings"
        required
        autoFocus
        inputMode="numeric"
        autoComplete="off"
        maxLength={16}
        value={shillings}
        onChange={(event) => setShillings(event.target.value)}
        disabled={save.isPending}
        problem={problems.amount}
        hint={`The order costs ${formatKes(charge)}.${order.delivery?.collected_cents ? ` The rider got ${formatKes(order.delivery.collected_cents)}.` : ''}`}
      />
      {difference < 0 && credit >= -difference ? (
        <Choices
          label={`The other ${formatKes(-difference)}`}
          options={[
            { value: 'from_credit', label: 'From their credit' },
            { value: 'forgiven', label: 'Forgiven' },
          ]}
          value={shortfall}
          onChoose={(value) => setShortfall(value)}
        />
      ) : null}
      {isFromCredit ? null : difference < 0 ? (
        <TextField
          label={`Why ${formatKes(-difference)} less is enough`}
          name="note"
          required
          autoComplete="off"
          maxLength={200}
          value={note}
          onChange={(event) => setNote(event.target.value)}
          disabled={save.isPending}
          problem={problems.note}
        />
      ) : difference > 0 ? (
        <Choices
          label={`What happens with the other ${formatKes(difference)}`}
          options={surplus}
          value={kept}
          onChoose={(value) => setKept(value)}
          problem={problems.kept}
        />
      ) : null}
      <TextField
        label="From"
        name="person"
        autoComplete="off"
        maxLength={120}
        value={person}
        onChange={(event) => setPerson(event.target.value)}
        disabled={save.isPending}
        hint="The rider who brings it. Empty: the customer."
      />
      <InlineFooter
        unsaved={unsaved}
        label={
          save.isPending
            ? 'Saving...'
            : cents === null
              ? 'Received'
              : `Received ${formatKes(cents)}${person.trim() ? ` from ${person.trim()}` : ''}`
        }
        isBusy={save.isPending}
        onCancel={onClose}
      />
    </form>
  );
}

/**
 * What staff can do about cash that is noted: take the entry back, or give the money back; also what was paid from credit whose source was
 * refunded.
 */
export function CashDecisions({ order, payment }: { order: WholeOrder; payment: PaymentOfOrder }) {
  const may = useMay();
  const [isOpen, setOpen] = useState(false);
  const isCredit = payment.method === 'credit';
  if (
    (payment.method !== 'cash' && !isCredit) ||
    payment.status !== 'completed' ||
    payment.refunded_at !== null
  )
    return null;
  const isToGiveBack = isRefundable(order, payment);
  if (isToGiveBack && (!may('refunds') || leftOf(payment) === 0)) return null;
  if (isCredit && !(isToGiveBack && payment.has_refunded_source)) return null;
  if (!isToGiveBack && (order.payment_status !== 'paid' || payment.change_notes.length > 0)) return null;
  const way = isToGiveBack ? 'give_back_cash' : 'take_back_cash';
  if (isOpen) return <EndCash order={order} payment={payment} way={way} onClose={() => setOpen(false)} />;
  return (
    <Button tone={isToGiveBack ? 'danger' : 'quiet'} className="mt-2" onClick={() => setOpen(true)}>
      {isToGiveBack ? `Give ${formatKes(leftOf(payment))} back` : 'Noted by mistake'}
    </Button>
  );
}

interface EndCashProps {
  order: WholeOrder;
  payment: PaymentOfOrder;
  way: 'give_back_cash' | 'take_back_cash';
  onClose(): void;
}

function EndCash({ order, payment, way, onClose }: EndCashProps) {
  const { tables } = useMember().staff;
  const isGift = way === 'give_back_cash';
  const money = formatKes(isGift ? leftOf(payment) : payment.charge_cents);
  const save = useSave<string>({
    write: async (reason) => dataOf(await tables.rpc(way, { payment_id: payment.id, reason })) as unknown,
    success: isGift
      ? `${money} given back is noted`
      : `The entry is taken back: ${order.order_number} is unpaid`,
    failure: 'Failed to save it',
    isUnsafeToRepeat: true,
    refresh: [...touchedByCash, 'refunds', 'reconciliation'],
    onSuccess: onClose,
    isShownElsewhere: isReasonRefused,
  });
  return (
    <ReasonForm
      label={isGift ? 'Give cash back' : 'Noted by mistake'}
      text={
        isGift
          ? `Only once the customer has the ${money}: the order is then refunded.`
          : `The ${money} did not come, or came for another order. This one is to be paid in cash again${order.payments.some(({ method, status }) => method === 'credit' && status === 'completed') ? ', and the credit that paid the rest is owed again' : ''}.`
      }
      confirm={isGift ? `${money} is given back` : 'Take the entry back'}
      tone="danger"
      error={save.error}
      isBusy={save.isPending}
      onConfirm={(reason) => save.mutate(reason)}
      onCancel={onClose}
    />
  );
}
