// The confirmation of a change of a status that is hard to undo.
import { Link } from 'react-router';
import { Button, buttonStyle } from '../../ui/button.tsx';
import { useLeaveDialog } from '../../ui/dialog/dialog-history.ts';
import { ConfirmDialog } from '../dialogs/confirm-dialog.tsx';
import type { Choice, Confirmation } from './status-change.ts';

interface StatusConfirmationProps {
  confirmation: Confirmation;
  isOpen: boolean;
  onConfirm(choice?: Choice['value']): void;
  onCancel(): void;
}

export function StatusConfirmation({ confirmation, isOpen, onConfirm, onCancel }: StatusConfirmationProps) {
  const { title, text, confirm, choices, tone, instead } = confirmation;
  return (
    <ConfirmDialog
      open={isOpen}
      title={title}
      text={text}
      confirm={confirm}
      tone={tone}
      dismiss="Keep it as it is"
      alternative={instead ? <Instead {...instead} /> : null}
      onCancel={onCancel}
      onConfirm={() => onConfirm()}
    >
      {choices ? (
        <ul className="grid gap-2 sm:grid-cols-2">
          {choices.map(({ value, label }) => (
            <li key={value}>
              <Button tone="outline" onClick={() => onConfirm(value)} className="w-full">
                {label}
              </Button>
            </li>
          ))}
        </ul>
      ) : null}
    </ConfirmDialog>
  );
}

/** Leads to another screen instead of confirming. */
function Instead({ label, to }: NonNullable<Confirmation['instead']>) {
  const { replace, leave } = useLeaveDialog();
  return (
    <Link to={to} replace={replace} onClick={leave} className={buttonStyle('leaf')}>
      {label}
    </Link>
  );
}
