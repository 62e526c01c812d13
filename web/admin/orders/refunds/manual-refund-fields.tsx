// Receipt and reason of a refund that staff made outside of the shop.
import { useState } from 'react';
import { TextField } from '../../../ui/field.tsx';
import { reasonProblem, receiptProblem, receiptRefusal } from '../../ui/typed-problems.ts';

/** State of the two fields. `validate` shows their problems; `showRefusal` shows an error that the database gave about the receipt. */
export function useManualRefundFields() {
  const [receipt, setReceipt] = useState('');
  const [reason, setReason] = useState('');
  const [problems, setProblems] = useState<{ receipt?: string | undefined; reason?: string | undefined }>({});
  return {
    receipt,
    reason,
    problems,
    isTyped: receipt.trim() !== '' || reason.trim() !== '',
    changeReceipt(value: string) {
      setReceipt(value);
      setProblems(({ reason: other }) => ({ reason: other }));
    },
    changeReason(value: string) {
      setReason(value);
      setProblems(({ receipt: other }) => ({ receipt: other }));
    },
    validate(): boolean {
      const found = { receipt: receiptProblem(receipt), reason: reasonProblem(reason) };
      setProblems(found);
      return !found.receipt && !found.reason;
    },
    showRefusal: (error: Error) => setProblems({ receipt: receiptRefusal(error) }),
  };
}

interface ManualRefundFieldsProps {
  fields: ReturnType<typeof useManualRefundFields>;
  isDisabled: boolean;
}

export function ManualRefundFields({ fields, isDisabled }: ManualRefundFieldsProps) {
  return (
    <>
      <TextField
        label="Receipt of the refund"
        required
        autoComplete="off"
        autoCapitalize="characters"
        spellCheck={false}
        maxLength={20}
        value={fields.receipt}
        onChange={(event) => fields.changeReceipt(event.target.value)}
        disabled={isDisabled}
        problem={fields.problems.receipt}
      />
      <TextField
        label="Reason"
        required
        maxLength={200}
        autoComplete="off"
        value={fields.reason}
        onChange={(event) => fields.changeReason(event.target.value)}
        disabled={isDisabled}
        problem={fields.problems.reason}
      />
    </>
  );
}
