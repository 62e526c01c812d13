// Confirms that a sent message is sent once more: to whom, what it says, and whether that is still true.

import { textLength } from '../../../domain/messages/text-message.ts';
import { formatPhone } from '../../../domain/people/phone.ts';
import { Notice } from '../../ui/notice.tsx';
import { Spinner } from '../../ui/spinner.tsx';
import { ConfirmDialog } from '../dialogs/confirm-dialog.tsx';
import { type Message, useRepeat, useRepeatCheck } from './message-queries.ts';

interface RepeatDialogProps {
  message: Message;
  isOpen: boolean;
  onClose(): void;
}

export function RepeatDialog({ message, isOpen, onClose }: RepeatDialogProps) {
  const { customer_name, recipient, channel, subject, body } = message;
  const check = useRepeatCheck(message.id, isOpen);
  const repeat = useRepeat(onClose);
  const isPossible = check.data?.problem === null;
  const { parts } = textLength(body ?? '');
  return (
    <ConfirmDialog
      open={isOpen}
      title="Send this message again?"
      text={
        recipient ? (
          <span className="wrap-anywhere">
            {channel === 'mail' ? 'An email' : parts > 1 ? `An SMS, charged as ${parts},` : 'An SMS'} to{' '}
            {customer_name ? (
              <>
                <bdi>{customer_name}</bdi>,{' '}
              </>
            ) : null}
            {formatPhone(recipient)}
          </span>
        ) : (
          'Its recipient was removed'
        )
      }
      tone="leaf"
      confirm={isPossible ? 'Send again' : null}
      dismiss={isPossible ? 'Cancel' : 'Close'}
      isBusy={repeat.isPending}
      onConfirm={() => repeat.mutate(message)}
      onCancel={onClose}
    >
      <div className="grid gap-4">
        {check.isPending ? <Spinner label="Checking..." /> : null}
        {check.error ? (
          <Notice tone="danger" title="It could not be checked whether this can be sent again">
            Please check the connection and try again.
          </Notice>
        ) : null}
        {check.data?.problem ? (
          <Notice tone="info" title="This message cannot be sent again">
            {`Because ${check.data.problem}.`}
          </Notice>
        ) : null}
        {isPossible && !check.data?.is_true ? (
          <Notice tone="danger" title="This is no longer true">
            The order or the matter has changed since. Send it only if the customer needs the old text.
          </Notice>
        ) : null}
        {body ? (
          <div className="rounded-md bg-paper-deep px-4 py-3">
            {subject ? <p className="mb-2 font-semibold wrap-anywhere">{subject}</p> : null}
            <p className="wrap-anywhere whitespace-pre-wrap">{body}</p>
          </div>
        ) : null}
      </div>
    </ConfirmDialog>
  );
}
