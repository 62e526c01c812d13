// Records a refund that staff made outside of the shop, by its receipt.

import type { FormEvent } from 'react';
import { formatKes } from '../../../../domain/money.ts';
import { dataOf } from '../../data/table-answer.ts';
import { useSave } from '../../data/use-save.ts';
import { focusFirstProblem } from '../../dialogs/focus-first-problem.ts';
import { useMember } from '../../layout/roles/use-member.tsx';
import {
  ManualRefundFields,
  type useManualRefundFields,
} from '../../orders/refunds/manual-refund-fields.tsx';
import { touchedByRefunds } from '../../orders/refunds/refund-queries.ts';
import { receiptRefusal } from '../../ui/typed-problems.ts';
import type { BookRow } from './difference-texts.ts';
import { isUnknown } from './difference-texts.ts';

interface ManualRefundProps {
  /** Id of the form, for the button that submits it. */
  id: string;
  row: BookRow;
  /** The member has confirmed that the payment may belong to an order. */
  isSure: boolean;
  fields: ReturnType<typeof useManualRefundFields>;
  note: ReturnType<typeof useRecordManualRefund>;
}

/**
 * Records the refund.
 * @param onSaved called once it is saved
 */
export function useRecordManualRefund(onSaved: () => void) {
  const { tables } = useMember().staff;
  return useSave<{ row: BookRow; receipt: string; reason: string; isSure: boolean }, unknown>({
    write: async ({ row, receipt, reason, isSure }) =>
      dataOf(
        await tables.rpc('note_refund_by_hand', {
          payment_id: isUnknown(row) ? null : row.payment_id,
          receipt: row.receipt,
          refund_receipt: receipt,
          reason,
          is_sure: isSure,
        }),
      ),
    success: 'The refund is noted',
    failure: 'Failed to note it',
    isUnsafeToRepeat: true,
    refresh: ['reconciliation', ...touchedByRefunds],
    onSuccess: onSaved,
    isShownElsewhere: (error) => receiptRefusal(error) !== undefined,
  });
}

export function ManualRefund({ id, row, isSure, fields, note }: ManualRefundProps) {
  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    if (!fields.validate()) {
      focusFirstProblem(event.currentTarget);
      return;
    }
    const { receipt, reason } = fields;
    note.mutate({ row, receipt, reason, isSure }, { onError: fields.showRefusal });
  }
  return (
    <form
      id={id}
      onSubmit={submit}
      noValidate
      className="grid gap-4 rounded-md border border-line-strong bg-card p-4"
    >
      <p className="text-sm">
        <span className="font-semibold">
          {formatKes(row.their_cents ?? row.our_cents ?? 0)} were sent back by hand?
        </span>{' '}
        Note it only once the money is sent, with M-PESA's receipt of the refund. The shop moves no money now.
      </p>
      <ManualRefundFields fields={fields} isDisabled={note.isPending} />
    </form>
  );
}
