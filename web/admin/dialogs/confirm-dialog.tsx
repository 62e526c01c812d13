// A confirmation before a destructive action.
import type { ReactNode } from 'react';
import { Button } from '../../ui/button.tsx';
import {
  DialogBody,
  DialogFooter,
  DialogHeading,
  DialogOrDrawer,
} from '../../ui/dialog/dialog-or-drawer.tsx';

interface ConfirmDialogProps {
  open: boolean;
  title: string;
  /** The consequence. */
  text: ReactNode;
  /** Further content. */
  children?: ReactNode;
  /** Label of the confirming button, such as 'Delete product'. Null: `children` confirm. */
  confirm: string | null;
  /** Label of the cancelling button. Default: 'Cancel'. */
  dismiss?: string;
  tone?: 'danger' | 'leaf';
  isBusy?: boolean;
  /** As in `DialogOrDrawer`. */
  hasOwnEntry?: boolean;
  /** An alternative action besides the two. */
  alternative?: ReactNode;
  onConfirm(): void;
  onCancel(): void;
}

export function ConfirmDialog({
  open,
  title,
  text,
  children,
  confirm,
  dismiss = 'Cancel',
  tone = 'danger',
  isBusy = false,
  hasOwnEntry = true,
  alternative,
  onConfirm,
  onCancel,
}: ConfirmDialogProps) {
  return (
    <DialogOrDrawer hasOwnEntry={hasOwnEntry} open={open} onClose={onCancel}>
      <DialogHeading title={title} description={text} />
      {children ? <DialogBody>{children}</DialogBody> : null}
      <DialogFooter>
        <div className="flex flex-wrap justify-end gap-3 max-md:*:grow">
          <Button tone="quiet" onClick={onCancel}>
            {dismiss}
          </Button>
          {alternative}
          {confirm === null ? null : (
            <Button tone={tone} isBusy={isBusy} onClick={onConfirm}>
              {confirm}
            </Button>
          )}
        </div>
      </DialogFooter>
    </DialogOrDrawer>
  );
}
