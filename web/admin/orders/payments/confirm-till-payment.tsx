// Confirms a payment to the till or paybill by its receipt, as seen on the till's phone or statement. Staff can
// correct what they typed until M-PESA confirms it.
import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useEffect, useRef, useState } from 'react';
import { chargeCents, formatKes } from '../../../../domain/money.ts';
import { normaliseReceipt } from '../../../../domain/mpesa/receipt.ts';
import { Button } from '../../../ui/button.tsx';
import { TextField } from '../../../ui/field.tsx';
import { dataOf, TableProblem } from '../../data/table-answer.ts';
import { useSave } from '../../data/use-save.ts';
import { Discard } from '../../dialogs/discard.tsx';
import { focusFirstProblem } from '../../dialogs/focus-first-problem.ts';
import { useUnsaved } from '../../dialogs/use-unsaved.tsx';
import { useMember } from '../../layout/roles/use-member.tsx';
import { isOpenRefund } from '../../status/states.ts';
import { receiptProblem, receiptRefusal } from '../../ui/typed-problems.ts';
import type { WholeOrder } from '../order-queries.ts';
import { lastRefund, type PaymentOfOrder } from '../refunds/refund-queries.ts';
import { isSettling, useResolvedByOther } from '../use-resolved-by-other.ts';
import { readAmount } from './read-amount.ts';

const outcomes: Record<string, string> = {
  paid: 'The payment is confirmed: the order is paid',
  paid_needs_review: 'The payment is saved, and the order needs your review',
  paid_twice: 'The payment is saved. The order was paid already: this money is to be sent back',
  already_completed: 'This receipt was confirmed before. Nothing was changed',
};
const correctedOutcomes: Record<string, string> = {
  paid: 'The payment is corrected: the order is paid',
  needs_review: 'The payment is corrected, and the order needs your review',
  unchanged: 'Nothing was changed',
};

/** The payment that staff typed and may correct, as far as the order shows it; the database decides. */
function typedPayment(order: WholeOrder): PaymentOfOrder | null {
  const completed = order.payments.filter(({ status }) => status === 'completed');
  const [only] = completed;
  if (!only || completed.length > 1 || only.method !== 'till' || !only.confirmed_by || only.needs_refund)
    return null;
  const refund = lastRefund(only.refunds);
  return refund && isOpenRefund(refund.status) ? null : only;
}

export function ConfirmTillPayment({ order }: { order: WholeOrder }) {
  const { tables } = useMember().staff;
  const typed = order.payment_status === 'unpaid' ? null : typedPayment(order);
  const receipt = typed?.receipt ?? null;
  const { data: isConfirmed } = useQuery({
    queryKey: ['orders', 'confirmed by M-PESA', receipt],
    queryFn: async ({ signal }) =>
      dataOf(
        await tables
          .from('mpesa_transactions')
          .select('receipt')
          .eq('receipt', receipt ?? '')
          .abortSignal(signal),
      ).length > 0,
    enabled: receipt !== null,
  });
  // A colleague saved another receipt first: asks whether this one is for a separate payment.
  const [isSecond, setSecond] = useState(false);
  const isOpenToDecision = order.payment_status === 'paid' || order.payment_status === 'needs_review';
  if (order.payment_status === 'unpaid' || isSecond)
    return <TillForm order={order} payment={null} onSecond={setSecond} />;
  return typed && isConfirmed === false ? (
    <>
      <p className="mt-3 text-sm font-semibold text-danger">
        Typed, not confirmed: M-PESA has not reported receipt {typed.receipt} yet.
      </p>
      {isOpenToDecision ? <TillForm order={order} payment={typed} /> : null}
    </>
  ) : null;
}

const fieldsOf = (payment: PaymentOfOrder | null) => ({
  receipt: payment?.receipt ?? '',
  shillings: payment ? String(payment.charge_cents / 100) : '',
});

/** The refusal of a receipt for an order that another receipt has just paid. */
const competingReceiptOf = (error: Error): string | undefined =>
  error instanceof TableProblem && error.details === 'paid_meanwhile' ? error.message : undefined;

const isNotReported = (error: Error): boolean =>
  error instanceof TableProblem && error.details === 'receipt_not_reported';

/** What M-PESA has reported about a typed receipt; undefined if it cannot be known. */
export function describeKnown({
  state,
  reported_cents,
  order_number,
}: {
  state: string | null;
  reported_cents: number | null;
  order_number: string | null;
}): string | undefined {
  if (order_number) return undefined;
  if (state === 'reported') return `M-PESA reported it with ${formatKes(reported_cents ?? 0)}.`;
  return state === 'not_reported' ? 'M-PESA has not reported this receipt (yet).' : undefined;
}

interface TillFormProps {
  order: WholeOrder;
  /** The payment to correct; null to confirm a new one. */
  payment: PaymentOfOrder | null;
  onSecond?(isSecond: boolean): void;
}

function TillForm({ order, payment, onSecond }: TillFormProps) {
  const { tables } = useMember().staff;
  const [isOpen, setOpen] = useState(false);
  // The payment at opening: a colleague's later correction must not be overwritten unseen.
  const [seen, setSeen] = useState(payment);
  const [receipt, setReceipt] = useState('');
  const [shillings, setShillings] = useState('');
  const [problems, setProblems] = useState<{ receipt?: string; shillings?: string }>({});
  const [isConfirming, setConfirming] = useState(false);
  // M-PESA should have reported the receipt: staff confirm it all the same.
  const [unreported, setUnreported] = useState<'asked' | 'accepted' | null>(null);
  const [otherPayment, setOtherPayment] = useState<string>();
  const form = useRef<HTMLFormElement>(null);
  const initialFields = fieldsOf(seen);
  const unsaved = useUnsaved(
    isOpen && (receipt !== initialFields.receipt || shillings !== initialFields.shillings),
  );
  const code = normaliseReceipt(receipt) ?? '';
  const { data: known } = useQuery({
    queryKey: ['reconciliation', 'typed receipt', order.id, code],
    queryFn: async ({ signal }) =>
      dataOf(
        await tables.rpc('check_typed_receipt', { order_id: order.id, receipt: code }).abortSignal(signal),
      ),
    enabled: isOpen && code !== seen?.receipt && receiptProblem(code) === undefined,
  });
  const save = useSave<
    { receipt: string; received_cents: number; isSecond: boolean; isSure: boolean },
    string
  >({
    async write({ isSecond, isSure, ...input }) {
      const answer = payment
        ? await tables.rpc('correct_till_payment', {
            payment_id: payment.id,
            seen_receipt: seen?.receipt ?? '',
            seen_cents: seen?.charge_cents ?? 0,
            ...input,
          })
        : await tables.rpc('confirm_till_payment', {
            order_id: order.id,
            ...input,
            only_if_unpaid: !isSecond,
            although_not_reported: isSure,
          });
      return dataOf(answer).outcome;
    },
    success: (outcome) => (payment ? correctedOutcomes : outcomes)[outcome] ?? 'The payment is confirmed',
    failure: payment ? 'Failed to correct the payment' : 'Failed to confirm the payment',
    isUnsafeToRepeat: true,
    refresh: ['orders', 'deliveries', 'products', 'dashboard'],
    onSuccess: close,
    isShownElsewhere: (error) =>
      receiptRefusal(error) !== undefined || competingReceiptOf(error) !== undefined || isNotReported(error),
  });
  useResolvedByOther({
    orderId: order.id,
    isOpen: isOpen && !otherPayment && !isSettling(save),
    isOffered: (now) => (payment ? typedPayment(now) !== null : now.payment_status === 'unpaid'),
  });
  function close() {
    unsaved.note(false);
    setOpen(false);
    setOtherPayment(undefined);
    onSecond?.(false);
  }
  function write(received_cents: number, { isSecond = false, isSure = false } = {}) {
    // The form stays until its own response, also if the colleague's payment arrives earlier.
    onSecond?.(true);
    save.mutate(
      { receipt: code, received_cents, isSecond, isSure: isSure || unreported === 'accepted' },
      {
        async onError(error) {
          if (isNotReported(error)) {
            setConfirming(false);
            setUnreported('asked');
            onSecond?.(false);
            return;
          }
          const other = competingReceiptOf(error);
          if (other) setOtherPayment(other);
          else onSecond?.(false);
          const refusal = receiptRefusal(error);
          if (!refusal) return;
          const paidOrder = await orderOfReceipt(code);
          setConfirming(false);
          setOtherPayment(undefined);
          setProblems({
            receipt: paidOrder ? `This receipt has paid order ${paidOrder} already` : refusal,
          });
          focusSoon('receipt');
        },
      },
    );
  }
  async function orderOfReceipt(code: string): Promise<string | undefined> {
    const { data } = await tables.from('payments').select('order:orders(order_number)').eq('receipt', code);
    return data?.[0]?.order?.order_number;
  }
  /** Once the field is enabled again. */
  function focusSoon(name: string) {
    setTimeout(() => {
      const field = form.current?.querySelector<HTMLInputElement>(`[name=${name}]`);
      field?.focus();
      field?.select();
    });
  }
  const charge = chargeCents(order.total_amount);
  const cents = readAmount(shillings);
  const differs = cents !== null && cents !== charge && cents !== seen?.charge_cents;

  function open() {
    const fields = fieldsOf(payment);
    setSeen(payment);
    setReceipt(fields.receipt);
    setShillings(fields.shillings);
    setProblems({});
    setConfirming(false);
    setUnreported(null);
    setOpen(true);
  }
  function submit(event: FormEvent) {
    event.preventDefault();
    const found: typeof problems = {};
    const wrongReceipt = receiptProblem(receipt);
    if (wrongReceipt) found.receipt = wrongReceipt;
    else if (known?.order_number && known.order_number !== order.order_number) {
      found.receipt = `This receipt has paid order ${known.order_number} already`;
    }
    if (cents === null) found.shillings = 'Please enter the amount in whole shillings';
    else if (known?.reported_cents != null && known.reported_cents !== cents) {
      found.shillings = `M-PESA reported ${formatKes(known.reported_cents)} under this receipt`;
    }
    setProblems(found);
    if (Object.keys(found).length > 0 || cents === null) {
      focusFirstProblem(form.current);
      return;
    }
    // The order of the questions: first whether the money came at all.
    if (known?.state === 'not_reported' && !payment && unreported === null) setUnreported('asked');
    else if (differs) setConfirming(true);
    else write(cents);
  }

  if (!isOpen) {
    return (
      <Button tone="quiet" onClick={open} className="mt-4">
        {payment ? 'Correct till payment' : 'Confirm till payment'}
      </Button>
    );
  }
  return (
    <form
      ref={form}
      onSubmit={submit}
      noValidate
      aria-label={payment ? 'Correct till payment' : 'Confirm till payment'}
      className="mt-4 grid gap-3 border-t border-line pt-4"
    >
      <p className="text-sm text-ink-soft">
        {payment
          ? 'You can correct this payment until M-PESA confirms it.'
          : "Confirm only what you see in the till's own messages or statement. A customer's word or screenshot is not enough."}
      </p>
      <TextField
        label="M-PESA receipt"
        name="receipt"
        required
        autoFocus
        autoComplete="off"
        autoCapitalize="characters"
        spellCheck={false}
        maxLength={20}
        value={receipt}
        onChange={(event) => {
          setReceipt(event.target.value);
          setUnreported(null);
        }}
        disabled={save.isPending || isConfirming || unreported === 'asked' || otherPayment !== undefined}
        problem={problems.receipt}
        hint={known ? describeKnown(known) : undefined}
      />
      <TextField
        label="Amount that came (KES)"
        name="shillings"
        required
        inputMode="numeric"
        autoComplete="off"
        maxLength={16}
        value={shillings}
        onChange={(event) => setShillings(event.target.value)}
        disabled={save.isPending || isConfirming || unreported === 'asked' || otherPayment !== undefined}
        problem={problems.shillings}
        hint={`The order's charge is ${formatKes(charge)}.`}
      />
      {unsaved.isBlocked ? (
        <Discard onStay={unsaved.stay} onLeave={unsaved.leave} />
      ) : otherPayment && cents !== null ? (
        <SecondPayment
          title={otherPayment}
          receipt={normaliseReceipt(receipt) ?? ''}
          isBusy={save.isPending}
          onSave={() => write(cents, { isSecond: true })}
          onDrop={close}
        />
      ) : isConfirming && cents !== null ? (
        <OtherAmount
          receivedCents={cents}
          charge={charge}
          isBusy={save.isPending}
          onSave={() => write(cents)}
          onBack={() => {
            setConfirming(false);
            focusSoon('shillings');
          }}
        />
      ) : unreported === 'asked' && cents !== null ? (
        <SaveQuestion
          label="Not reported"
          title={`M-PESA has not reported ${code} yet`}
          text="It reports your payments within a minute. Confirm it only if you see this money in the till's own messages: it stays marked as typed, not confirmed, until M-PESA reports it."
          no="Check the receipt"
          yes="Confirm it all the same"
          isBusy={save.isPending}
          onNo={() => {
            setUnreported(null);
            focusSoon('receipt');
          }}
          onYes={() => {
            setUnreported('accepted');
            if (differs) setConfirming(true);
            else write(cents, { isSure: true });
          }}
        />
      ) : (
        <div className="flex flex-wrap gap-3">
          <Button type="submit" isBusy={save.isPending}>
            {save.isPending ? 'Saving...' : payment ? 'Save correction' : 'Confirm payment'}
          </Button>
          <Button tone="quiet" disabled={save.isPending} onClick={() => setOpen(false)}>
            Cancel
          </Button>
        </div>
      )}
    </form>
  );
}

interface OtherAmountProps {
  receivedCents: number;
  charge: number;
  isBusy: boolean;
  onSave(): void;
  onBack(): void;
}

/** Asks before an amount is saved that differs from the order's. */
function OtherAmount({ receivedCents, charge, isBusy, onSave, onBack }: OtherAmountProps) {
  const difference = formatKes(Math.abs(receivedCents - charge));
  return (
    <SaveQuestion
      label="Another amount"
      title={`${formatKes(receivedCents)} is ${difference} ${receivedCents < charge ? 'less' : 'more'} than the order's charge`}
      text="With this amount the order needs your review, and the customer gets a message that you'll call."
      no="Change the amount"
      yes={`Save ${formatKes(receivedCents)}`}
      isBusy={isBusy}
      onNo={onBack}
      onYes={onSave}
    />
  );
}

interface SecondPaymentProps {
  title: string;
  receipt: string;
  isBusy: boolean;
  onSave(): void;
  onDrop(): void;
}

/** Asks whether the receipt is for another payment than the one that has just paid the order. */
function SecondPayment({ title, receipt, isBusy, onSave, onDrop }: SecondPaymentProps) {
  return (
    <SaveQuestion
      label="Second payment"
      title={title}
      text={`Did the customer pay a second time? Then save ${receipt}: it is to be sent back. If both receipts stand for the same money, don't save it.`}
      no="Don't save it"
      yes="Save second payment"
      isBusy={isBusy}
      onNo={onDrop}
      onYes={onSave}
    />
  );
}

interface SaveQuestionProps {
  label: string;
  title: string;
  text: string;
  /** Words of the two buttons. */
  no: string;
  yes: string;
  isBusy: boolean;
  onNo(): void;
  onYes(): void;
}

/** A question in place of the form's buttons. The focus is on the answer that saves nothing. */
function SaveQuestion({ label, title, text, no, yes, isBusy, onNo, onYes }: SaveQuestionProps) {
  const first = useRef<HTMLButtonElement>(null);
  useEffect(() => first.current?.focus(), []);
  return (
    <section
      aria-label={label}
      className="grid gap-3 rounded-md border border-danger/40 bg-danger-soft px-4 py-3"
    >
      <div role="alert" className="text-danger">
        <p className="font-bold">{title}</p>
        <p className="text-sm">{text}</p>
      </div>
      <div className="flex flex-wrap gap-3">
        <Button ref={first} tone="quiet" disabled={isBusy} onClick={onNo}>
          {no}
        </Button>
        <Button tone="danger" isBusy={isBusy} onClick={onYes}>
          {yes}
        </Button>
      </div>
    </section>
  );
}
