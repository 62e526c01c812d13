// Refunds a payment: by M-PESA, or by recording a refund that was made by hand.
import { type FormEvent, useId, useState } from 'react';
import { formatKes } from '../../../../domain/money.ts';
import { Button } from '../../../ui/button.tsx';
import { DialogBody, DialogHeading, DialogOrDrawer } from '../../../ui/dialog/dialog-or-drawer.tsx';
import { TextField } from '../../../ui/field.tsx';
import { Notice } from '../../../ui/notice.tsx';
import { dataOf } from '../../data/table-answer.ts';
import { useSave } from '../../data/use-save.ts';
import { focusFirstProblem } from '../../dialogs/focus-first-problem.ts';
import { FormFooter } from '../../dialogs/form-footer.tsx';
import { useUnsaved } from '../../dialogs/use-unsaved.tsx';
import { useMember } from '../../layout/roles/use-member.tsx';
import { usePaymentHealth } from '../../payments-check/payment-health.ts';
import { useSettings } from '../../settings/settings-queries.ts';
import { reasonProblem, receiptRefusal } from '../../ui/typed-problems.ts';
import type { WholeOrder } from '../order-queries.ts';
import { leftOf } from '../payments/change-of.ts';
import { isSettling, useResolvedByOther } from '../use-resolved-by-other.ts';
import { ManualRefundFields, useManualRefundFields } from './manual-refund-fields.tsx';
import {
  describeApprovers,
  isRefundable,
  type PaymentOfOrder,
  type Refund,
  touchedByRefunds,
  usePaymentSetup,
  useRefundApprovers,
} from './refund-queries.ts';

interface RefundFormProps {
  order: WholeOrder;
  payment: PaymentOfOrder;
}

export function RefundForm({ order, payment }: RefundFormProps) {
  const [method, setMethod] = useState<'by M-PESA' | 'by hand' | null>(null);
  const setup = usePaymentSetup();
  const amount = formatKes(payment.charge_cents);
  const why = whyNotByMpesa();

  function whyNotByMpesa(): string | null {
    // The decision above says why.
    if (payment.method === 'credit') return '';
    if (leftOf(payment) < payment.charge_cents) {
      return `Part of it went back or paid another order, and M-PESA sends whole payments back only. Send the other ${formatKes(leftOf(payment))} by hand.`;
    }
    if (setup.isPending) return null;
    if (!setup.data) return "We couldn't check whether M-PESA can send money back.";
    if (!setup.data.canReverse) {
      return 'M-PESA cannot send money back from here: MPESA_INITIATOR_NAME is not set.';
    }
    return payment.receipt
      ? null
      : 'M-PESA has not sent the receipt of this payment yet. Until then it can only be sent back by hand.';
  }

  return (
    <div className="grid gap-2">
      <div className="flex flex-wrap gap-3">
        {why === null ? (
          <Button
            tone="danger"
            className="py-2"
            isBusy={setup.isPending}
            onClick={() => setMethod('by M-PESA')}
          >
            Send back {amount} by M-PESA
          </Button>
        ) : null}
        <Button tone="quiet" onClick={() => setMethod('by hand')}>
          I already refunded it
        </Button>
      </div>
      {why ? <p className="text-sm text-ink-soft">{why}</p> : null}
      <RefundByMpesa
        order={order}
        payment={payment}
        open={method === 'by M-PESA'}
        onClose={() => setMethod(null)}
      />
      <RecordManualRefund
        order={order}
        payment={payment}
        open={method === 'by hand'}
        onClose={() => setMethod(null)}
      />
    </div>
  );
}

interface AskProps extends RefundFormProps {
  open: boolean;
  onClose(): void;
}

const useOwnForm = ({ order, payment, isOpen }: RefundFormProps & { isOpen: boolean }) =>
  useResolvedByOther({
    orderId: order.id,
    isOpen,
    isOffered: (now) => now.payments.some((one) => one.id === payment.id && isRefundable(now, one)),
  });

function RefundByMpesa({ open, ...asked }: AskProps) {
  return (
    <DialogOrDrawer open={open} onClose={asked.onClose}>
      <AskMpesa {...asked} />
    </DialogOrDrawer>
  );
}

function AskMpesa({ order, payment, onClose }: Omit<AskProps, 'open'>) {
  const { tables } = useMember().staff;
  const settings = useSettings().data;
  // A raised limit applies after a day.
  const limit = usePaymentHealth().data?.limit_raise?.current_limit ?? settings?.refund_approval_above;
  const [reason, setReason] = useState('');
  const [problem, setProblem] = useState<string>();
  const form = useId();
  const save = useSave<void, Refund>({
    write: async () => dataOf(await tables.rpc('request_refund', { payment_id: payment.id, reason })),
    success: ({ status }) =>
      status === 'requested'
        ? 'A colleague must approve the refund'
        : 'M-PESA is asked to send the money back',
    failure: 'Failed to ask for the refund',
    isUnsafeToRepeat: true,
    refresh: touchedByRefunds,
    onSuccess: onClose,
  });
  useOwnForm({ order, payment, isOpen: !isSettling(save) });
  const unsaved = useUnsaved(reason.trim() !== '' && !save.isPending && !save.isSuccess);
  const amount = formatKes(payment.charge_cents);
  const needsSecond = limit !== undefined && payment.charge_cents > limit;
  const approvers = useRefundApprovers(needsSecond);
  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    const found = reasonProblem(reason);
    setProblem(found);
    if (found) focusFirstProblem(event.currentTarget);
    else save.mutate();
  }
  return (
    <>
      <DialogHeading
        title={`Send back ${amount}?`}
        description={`By M-PESA, to the phone that paid ${order.order_number} (receipt ${payment.receipt}). This can't be undone.`}
      />
      <DialogBody>
        <form id={form} onSubmit={submit} noValidate className="grid gap-4">
          {needsSecond ? (
            <Notice tone="info" title="A colleague must approve it">
              It is more than {formatKes(limit)}, so {describeApprovers(approvers)}. Nothing is sent before
              that.
            </Notice>
          ) : null}
          <TextField
            label="Reason"
            required
            maxLength={200}
            autoComplete="off"
            hint="For your books. The customer only reads that the money is coming back."
            value={reason}
            onChange={(event) => {
              setReason(event.target.value);
              setProblem(undefined);
            }}
            disabled={save.isPending}
            problem={problem}
          />
        </form>
      </DialogBody>
      <FormFooter
        unsaved={unsaved}
        form={form}
        tone="danger"
        label={needsSecond ? 'Ask for approval' : `Send back ${amount}`}
        isBusy={save.isPending}
        onCancel={onClose}
      />
    </>
  );
}

function RecordManualRefund({ open, ...asked }: AskProps) {
  return (
    <DialogOrDrawer open={open} onClose={asked.onClose}>
      <RecordByHand {...asked} />
    </DialogOrDrawer>
  );
}

function RecordByHand({ order, payment, onClose }: Omit<AskProps, 'open'>) {
  const { tables } = useMember().staff;
  const fields = useManualRefundFields();
  const form = useId();
  const save = useSave({
    write: async () =>
      dataOf(
        await tables.rpc('note_refund_by_hand', {
          payment_id: payment.id,
          refund_receipt: fields.receipt,
          reason: fields.reason,
        }),
      ),
    success: 'The refund is noted with the order',
    failure: 'Failed to note the refund',
    isUnsafeToRepeat: true,
    refresh: touchedByRefunds,
    onSuccess: onClose,
    isShownElsewhere: (error) => receiptRefusal(error) !== undefined,
  });
  useOwnForm({ order, payment, isOpen: !isSettling(save) });
  const unsaved = useUnsaved(fields.isTyped && !save.isPending && !save.isSuccess);
  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    if (fields.validate()) save.mutate(undefined, { onError: fields.showRefusal });
    else focusFirstProblem(event.currentTarget);
  }
  return (
    <>
      <DialogHeading
        title={`${formatKes(leftOf(payment))} were sent back by hand?`}
        description={`Note it only once the money of ${order.order_number} is sent, with M-PESA's receipt of the refund. The shop moves no money now.`}
      />
      <DialogBody>
        <form id={form} onSubmit={submit} noValidate className="grid gap-4">
          <ManualRefundFields fields={fields} isDisabled={save.isPending} />
        </form>
      </DialogBody>
      <FormFooter
        unsaved={unsaved}
        form={form}
        label="It was sent back"
        isBusy={save.isPending}
        onCancel={onClose}
      />
    </>
  );
}
