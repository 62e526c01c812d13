// The end of a form: Cancel and its own button, in a dialog with the question before unsaved changes are discarded.
import type { ReactNode, Ref } from 'react';
import { Button } from '../../ui/button.tsx';
import { DialogFooter } from '../../ui/dialog/dialog-or-drawer.tsx';
import { Discard } from './discard.tsx';
import type { Unsaved } from './use-unsaved.tsx';

interface FormButtonsProps {
  /** Label of the button that submits. Default: "Save", and "Saving..." while it is busy. */
  label?: string;
  tone?: 'leaf' | 'danger';
  isBusy: boolean;
  disabled?: boolean;
  isCancelDisabled?: boolean;
  /** Id of the form, where the buttons are outside it. */
  form?: string;
  submitRef?: Ref<HTMLButtonElement>;
  /** Buttons before them. */
  children?: ReactNode;
  /** Asks in place of the buttons before unsaved changes are discarded. */
  unsaved?: Pick<Unsaved, 'isBlocked' | 'stay' | 'leave'>;
  isHidden?: boolean;
  onCancel(): void;
}

export function FormButtons({
  label,
  tone = 'leaf',
  isBusy,
  disabled = false,
  isCancelDisabled = false,
  form,
  submitRef,
  children,
  unsaved,
  isHidden = unsaved?.isBlocked ?? false,
  onCancel,
}: FormButtonsProps) {
  return (
    <>
      {unsaved?.isBlocked ? <Discard onStay={unsaved.stay} onLeave={unsaved.leave} /> : null}
      <div className={`flex flex-wrap justify-end gap-3 max-md:*:grow ${isHidden ? 'hidden' : ''}`}>
        {children}
        <Button tone="quiet" onClick={onCancel} disabled={isCancelDisabled}>
          Cancel
        </Button>
        <Button type="submit" tone={tone} ref={submitRef} form={form} isBusy={isBusy} disabled={disabled}>
          {label ?? (isBusy ? 'Saving...' : 'Save')}
        </Button>
      </div>
    </>
  );
}

interface InlineFooterProps {
  unsaved: Pick<Unsaved, 'isBlocked' | 'stay' | 'leave'>;
  /** Label of the button that submits, also while it is busy. */
  label: string;
  tone?: 'leaf' | 'danger' | undefined;
  isBusy: boolean;
  /** Without it, the form cannot be closed by itself. */
  onCancel?: (() => void) | undefined;
}

/** The end of a form inside an order or a screen, with the question before unsaved changes are discarded. */
export function InlineFooter({ unsaved, label, tone = 'leaf', isBusy, onCancel }: InlineFooterProps) {
  if (unsaved.isBlocked) return <Discard onStay={unsaved.stay} onLeave={unsaved.leave} />;
  return (
    <div className="flex flex-wrap gap-3">
      <Button type="submit" tone={tone} isBusy={isBusy}>
        {label}
      </Button>
      {onCancel ? (
        <Button tone="quiet" disabled={isBusy} onClick={onCancel}>
          Cancel
        </Button>
      ) : null}
    </div>
  );
}

interface FormFooterProps extends Omit<FormButtonsProps, 'isHidden'> {
  unsaved?: Pick<Unsaved, 'isBlocked' | 'stay' | 'leave' | 'close'>;
  /** Another question in place of the buttons. */
  question?: ReactNode;
}

export function FormFooter({ unsaved, question, onCancel, ...buttons }: FormFooterProps) {
  return (
    <DialogFooter>
      {unsaved?.isBlocked ? null : question}
      <FormButtons
        {...buttons}
        {...(unsaved && { unsaved })}
        onCancel={() => (unsaved ? unsaved.close(onCancel) : onCancel())}
        isHidden={unsaved?.isBlocked || Boolean(question)}
      />
    </DialogFooter>
  );
}
