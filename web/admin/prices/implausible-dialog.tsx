// Asks before implausible figures are saved.
import { ConfirmDialog } from '../dialogs/confirm-dialog.tsx';

interface ImplausibleDialogProps {
  /** Sentences; null while nothing is asked. */
  questions: readonly string[] | null;
  onConfirm(): void;
  onCancel(): void;
}

export function ImplausibleDialog({ questions, onConfirm, onCancel }: ImplausibleDialogProps) {
  return (
    <ConfirmDialog
      open={questions !== null}
      title="Is this right?"
      text={(questions ?? []).join(' ')}
      confirm="Save it like this"
      dismiss="Change it"
      onConfirm={onConfirm}
      onCancel={onCancel}
    />
  );
}
