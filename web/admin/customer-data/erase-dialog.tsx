// Confirms an erasure: shows the consequences and asks for the phone or e-mail again.
import { useId, useState } from 'react';
import { formatPhone } from '../../../domain/people/phone.ts';
import { DialogBody, DialogHeading, DialogOrDrawer, useKeepOpen } from '../../ui/dialog/dialog-or-drawer.tsx';
import { TextField } from '../../ui/field.tsx';
import { FormFooter } from '../dialogs/form-footer.tsx';
import { type ErasedData, type HeldData, useErase } from './customer-data-queries.ts';
import { identifierOf } from './identifier.ts';

interface EraseDialogProps {
  /** Null while closed. */
  held: HeldData | null;
  onClose(): void;
  onErased(outcome: ErasedData): void;
}

export function EraseDialog({ held, onClose, onErased }: EraseDialogProps) {
  return (
    <DialogOrDrawer open={held !== null} onClose={onClose}>
      {held ? <Question held={held} onClose={onClose} onErased={onErased} /> : null}
    </DialogOrDrawer>
  );
}

function Question({ held, onClose, onErased }: EraseDialogProps & { held: HeldData }) {
  const formId = useId();
  const [typed, setTyped] = useState('');
  const [isChecked, setChecked] = useState(false);
  const erase = useErase(onErased);
  useKeepOpen(erase.isPending);
  const isSame = identifierOf(typed)?.toLowerCase() === held.identifier;
  const open = held.orders.filter(({ reason_to_keep }) => reason_to_keep !== null).length;
  const shownIdentifier = formatPhone(held.identifier);

  return (
    <>
      <DialogHeading title={`Erase ${shownIdentifier}?`} description="This cannot be undone." />
      <DialogBody>
        <form
          id={formId}
          noValidate
          onSubmit={(event) => {
            event.preventDefault();
            setChecked(true);
            if (isSame && !erase.isPending) erase.mutate(held.identifier);
          }}
          className="grid gap-4"
        >
          <ul className="list-disc pl-5 text-sm">
            <li className="mt-1">
              Orders lose name, phone, email, address and notes. Amounts and receipts stay in the books.
            </li>
            <li className="mt-1">Inquiries and the newsletter subscription are deleted.</li>
            <li className="mt-1">
              M-PESA's own messages stay as long as the settings say: tax law requires them.
            </li>
            {open > 0 ? (
              <li className="mt-1 font-semibold">
                {open === 1 ? '1 order is' : `${open} orders are`} still needed, and erased automatically
                later.
              </li>
            ) : null}
          </ul>
          <TextField
            label={`Type ${shownIdentifier} to confirm`}
            name="confirmation"
            required
            autoComplete="off"
            value={typed}
            problem={isChecked && !isSame ? 'This is another phone or email' : undefined}
            onChange={({ target }) => setTyped(target.value)}
          />
        </form>
      </DialogBody>
      <FormFooter
        form={formId}
        tone="danger"
        label={erase.isPending ? 'Erasing...' : 'Erase'}
        isBusy={erase.isPending}
        onCancel={onClose}
      />
    </>
  );
}
