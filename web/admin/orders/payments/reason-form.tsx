// Asks for a reason before something that stays in the books is done.
import { type FormEvent, useState } from 'react';
import { TextField } from '../../../ui/field.tsx';
import { focusFirstProblem } from '../../dialogs/focus-first-problem.ts';
import { InlineFooter } from '../../dialogs/form-footer.tsx';
import { useIsAwayFromHere, useUnsaved } from '../../dialogs/use-unsaved.tsx';
import { reasonProblem, reasonRefusal } from '../../ui/typed-problems.ts';

interface ReasonFormProps {
  label: string;
  text: string;
  confirm: string;
  /** Under the field. */
  hint?: string;
  /** Of the write: a refused reason is shown beside its field, so the write itself must not show it (`isReasonRefused`). */
  error: Error | null;
  tone?: 'danger';
  isBusy: boolean;
  onConfirm(reason: string): void;
  onCancel(): void;
}

/** Whether this form shows the error. */
export const isReasonRefused = (error: Error): boolean => reasonRefusal(error) !== undefined;

export function ReasonForm({
  label,
  text,
  confirm,
  hint,
  error,
  tone,
  isBusy,
  onConfirm,
  onCancel,
}: ReasonFormProps) {
  const [reason, setReason] = useState('');
  const [problem, setProblem] = useState<string>();
  // What is being saved closes by itself.
  const unsaved = useUnsaved(reason.trim() !== '' && !isBusy, useIsAwayFromHere());
  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    const found = reasonProblem(reason);
    setProblem(found);
    if (found) focusFirstProblem(event.currentTarget);
    else if (!isBusy) onConfirm(reason);
  }
  return (
    <form noValidate aria-label={label} className="mt-2 grid gap-3" onSubmit={submit}>
      <p className="text-sm text-ink-soft">{text}</p>
      <TextField
        label="Reason"
        required
        autoFocus
        maxLength={200}
        autoComplete="off"
        value={reason}
        onChange={(event) => setReason(event.target.value)}
        disabled={isBusy}
        problem={problem ?? reasonRefusal(error)}
        hint={hint}
      />
      <InlineFooter unsaved={unsaved} label={confirm} tone={tone} isBusy={isBusy} onCancel={onCancel} />
    </form>
  );
}
