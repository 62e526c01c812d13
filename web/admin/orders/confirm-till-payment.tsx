// Money that the customer paid by hand: staff confirm it by the receipt they see on the till's own phone or statement.
import { type FormEvent, useRef, useState } from 'react';
import { chargeAmount, formatKes } from '../../../domain/money.ts';
import { Button } from '../../ui/button.tsx';
import { TextField } from '../../ui/field.tsx';
import { dataOf } from '../table-answer.ts';
import { useMember } from '../use-member.tsx';
import { useSave } from '../use-save.ts';
import type { WholeOrder } from './order-queries.ts';

const outcomes: Record<string, string> = {
  paid: 'The payment is confirmed: the order is paid',
  paid_needs_decision: 'The payment is kept, and the order waits for your decision',
  paid_twice: 'The payment is kept. The order was paid already: this money is to be sent back',
  already_completed: 'This receipt was confirmed before. Nothing was changed',
};

/** Whole shillings, as typed, in cents; null for anything else. */
const readAmount = (text: string): number | null => {
  const shillings = /^\d{1,7}$/.exec(text.trim().replaceAll(',', ''))?.[0];
  return shillings && Number(shillings) > 0 ? Number(shillings) * 100 : null;
};
const readReceipt = (text: string): string => text.replace(/\s/g, '').toUpperCase();

export function ConfirmTillPayment({ order }: { order: WholeOrder }) {
  const { tables } = useMember().staff;
  const [isOpen, setOpen] = useState(false);
  const [receipt, setReceipt] = useState('');
  const [amount, setAmount] = useState('');
  const [problems, setProblems] = useState<{ receipt?: string; amount?: string }>({});
  const form = useRef<HTMLFormElement>(null);
  const save = useSave<{ receipt: string; amount: number }, string>({
    async write(typed) {
      const answer = dataOf(await tables.rpc('confirm_till_payment', { order_id: order.id, ...typed }));
      return String((answer as { outcome?: unknown } | null)?.outcome ?? '');
    },
    success: (outcome) => outcomes[outcome] ?? 'The payment is confirmed',
    failure: 'Failed to confirm the payment',
    refresh: ['orders', 'deliveries', 'products', 'dashboard'],
    onSuccess() {
      setOpen(false);
      setReceipt('');
      setAmount('');
    },
  });
  const charge = chargeAmount(order.total_amount);
  const cents = readAmount(amount);

  function submit(event: FormEvent) {
    event.preventDefault();
    const found: typeof problems = {};
    if (!/^[A-Z0-9]{10}$/.test(readReceipt(receipt))) {
      found.receipt = 'An M-PESA receipt has ten letters and digits, such as UKL3AB12CD';
    }
    if (cents === null) found.amount = 'Please enter the amount in whole shillings';
    setProblems(found);
    const [first] = Object.keys(found);
    const field = first && form.current?.elements.namedItem(first);
    if (field instanceof HTMLElement) field.focus();
    if (!first && cents !== null) save.mutate({ receipt: readReceipt(receipt), amount: cents });
  }

  if (order.payment_status !== 'unpaid') return null;
  if (!isOpen) {
    return (
      <Button tone="quiet" onClick={() => setOpen(true)} className="mt-4">
        Confirm till payment
      </Button>
    );
  }
  return (
    <form
      ref={form}
      onSubmit={submit}
      noValidate
      aria-label="Confirm till payment"
      className="mt-4 grid gap-3 border-t border-line pt-4"
    >
      <p className="text-sm text-ink-soft">
        Confirm only what you see in the till's own messages or statement. A customer's word or screenshot is
        not enough.
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
        onChange={(event) => setReceipt(event.target.value)}
        disabled={save.isPending}
        problem={problems.receipt}
      />
      <TextField
        label="Amount that came (KES)"
        name="amount"
        required
        inputMode="numeric"
        autoComplete="off"
        maxLength={9}
        value={amount}
        onChange={(event) => setAmount(event.target.value)}
        disabled={save.isPending}
        problem={problems.amount}
        hint={
          cents !== null && cents !== charge
            ? `The order's charge is ${formatKes(charge)}. Another amount is kept, and the order waits for your decision.`
            : `The order's charge is ${formatKes(charge)}.`
        }
      />
      <div className="flex flex-wrap gap-3">
        <Button type="submit" isBusy={save.isPending}>
          {save.isPending ? 'Confirming...' : 'Confirm payment'}
        </Button>
        <Button tone="quiet" disabled={save.isPending} onClick={() => setOpen(false)}>
          Cancel
        </Button>
      </div>
    </form>
  );
}
