// The elements of a form that edits a row in a dialog (`useRowForm`).
import { type ReactNode, useState } from 'react';
import { Button } from '../../ui/button.tsx';
import { useKeepOpen } from '../../ui/dialog/dialog-or-drawer.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Discard } from './discard.tsx';
import { FormFooter } from './form-footer.tsx';
import type { RowFormState } from './use-row-form.ts';

interface ChangedNoticeProps {
  title?: string;
  /** What is stored now. */
  children: ReactNode;
  onTakeTheirs(): void;
  onKeepMine(): void;
}

export function ChangedNotice({
  title = 'Someone else changed this',
  children,
  onTakeTheirs,
  onKeepMine,
}: ChangedNoticeProps) {
  return (
    <Notice tone="danger" title={title}>
      <span className="grid gap-3">
        <span className="block wrap-anywhere whitespace-pre-wrap">{children}</span>
        <span className="flex flex-wrap gap-3">
          <Button tone="quiet" onClick={onTakeTheirs}>
            Keep their changes
          </Button>
          <Button tone="quiet" onClick={onKeepMine}>
            Keep mine
          </Button>
        </span>
      </span>
    </Notice>
  );
}

interface RowFormProps {
  form: RowFormState;
  /** The stored values, for the notice that they have changed. */
  stored: ReactNode;
  isBusy?: boolean;
  className?: string;
  children: ReactNode;
}

export function RowForm({
  form,
  stored,
  isBusy = form.isSaving,
  className = 'gap-4',
  children,
}: RowFormProps) {
  useKeepOpen(isBusy);
  return (
    <form
      ref={form.element}
      id={form.id}
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        if (!isBusy) form.submit();
      }}
      className={`grid min-w-0 grid-cols-[minmax(0,1fr)] ${className}`}
    >
      {form.isChanged ? (
        <ChangedNotice onTakeTheirs={form.takeTheirs} onKeepMine={form.keepMine}>
          {stored}
        </ChangedNotice>
      ) : null}
      {children}
    </form>
  );
}

interface Deletion {
  question: string;
  /** Label of the button that confirms it. */
  confirm: string;
  isBusy: boolean;
  run(): void;
}

interface RowFormFooterProps {
  form: RowFormState;
  /** Null: the row cannot be deleted. */
  deletion?: Deletion | null;
  /** Buttons before Cancel and Save. */
  children?: ReactNode;
  onCancel(): void;
}

export function RowFormFooter({ form, deletion = null, children, onCancel }: RowFormFooterProps) {
  const [isAsking, setAsking] = useState(false);
  return (
    <FormFooter
      unsaved={form.unsaved}
      question={
        deletion && isAsking ? (
          <Discard
            question={deletion.question}
            stay="Keep it"
            leave={deletion.confirm}
            isBusy={deletion.isBusy}
            onStay={() => setAsking(false)}
            onLeave={deletion.run}
          />
        ) : null
      }
      isBusy={form.isSaving}
      disabled={form.isChanged}
      form={form.id}
      onCancel={onCancel}
    >
      {deletion ? (
        <Button tone="quiet" onClick={() => setAsking(true)} className="mr-auto">
          Delete
        </Button>
      ) : null}
      {children}
    </FormFooter>
  );
}
