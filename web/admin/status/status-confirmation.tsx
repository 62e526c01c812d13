// The confirmation of a change of a status that is hard to undo.
import { Link } from 'react-router';
import { buttonStyle } from '../../ui/button.tsx';
import { useLeaveDialog } from '../../ui/dialog/dialog-history.ts';
import { ConfirmDialog } from '../dialogs/confirm-dialog.tsx';
import type { Confirmation } from './status-change.ts';

interface StatusConfirmationProps {
  confirmation: Confirmation;
  isOpen: boolean;
  onConfirm(): void;
  onCancel(): void;
}

export function StatusConfirmation({ confirmation, isOpen, onConfirm, onCancel }: StatusConfirmationProps) {
  const { title, text, confirm, tone, instead } = confirmation;
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
      onConfirm={onConfirm}
    />
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
