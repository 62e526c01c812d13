// The details of a message: text, recipient and state. Open while the URL has `?view=<id>`.
import { useState } from 'react';
import { Link } from 'react-router';
import { formatCount } from '../../../domain/count.ts';
import { formatPhone } from '../../../domain/people/phone.ts';
import { Button } from '../../ui/button.tsx';
import {
  DialogBody,
  DialogFooter,
  DialogHeading,
  DialogOrDrawer,
} from '../../ui/dialog/dialog-or-drawer.tsx';
import { Notice } from '../../ui/notice.tsx';
import { DialogLoadState } from '../dialogs/dialog-load-state.tsx';
import { useDialogParameter } from '../dialogs/use-dialog-parameter.ts';
import { Fact } from '../ui/fact.tsx';
import { LinkedText } from '../ui/linked-text.tsx';
import { StaffName } from '../ui/staff-name.tsx';
import { formatDateTime } from '../ui/time/dates.ts';
import { canSend, MessageBadge, sendLabel } from './message-columns.tsx';
import { type Message, useMessage, useRepetitions, type useSendAgain } from './message-queries.ts';
import { channelLabel, kindLabel, messageState } from './message-texts.ts';
import { RepeatDialog } from './repeat-dialog.tsx';

type SendAgain = ReturnType<typeof useSendAgain>;

export function MessageDialog({ again }: { again: SendAgain }) {
  const { id, shownId, close } = useDialogParameter('view');
  return (
    <DialogOrDrawer hasOwnEntry={false} open={id !== null} onClose={close}>
      {shownId ? <Opened key={shownId} id={shownId} again={again} onClose={close} /> : null}
    </DialogOrDrawer>
  );
}

function Opened({ id, again, onClose }: { id: string; again: SendAgain; onClose(): void }) {
  const query = useMessage(id);
  const message = query.data;
  if (message) return <Whole message={message} again={again} onClose={onClose} />;
  return <DialogLoadState title="Message" noun="message" row={query.data} query={query} onClose={onClose} />;
}

interface WholeProps {
  message: Message;
  again: SendAgain;
  onClose(): void;
}

function Whole({ message, again: { send, isSending }, onClose }: WholeProps) {
  const { kind, channel, recipient, customer_name, order_id, order_number, event_key, subject, body } =
    message;
  const [isRepeating, setRepeating] = useState(false);
  return (
    <>
      <DialogHeading
        title={
          <span className="flex flex-wrap items-center gap-x-3 gap-y-1">
            {kindLabel(kind)} <MessageBadge status={message.status} />
          </span>
        }
        description={
          <span className="wrap-anywhere">
            {channelLabel(channel)} to{' '}
            {customer_name ? (
              <>
                <bdi>{customer_name}</bdi>,{' '}
              </>
            ) : null}
            {formatPhone(recipient)}
          </span>
        }
      />
      <DialogBody>
        <div className="grid gap-5">
          <State message={message} />
          <dl className="grid gap-4">
            {order_id === null ? null : (
              <Fact term="Order">
                <Link to={`/admin/orders/${order_id}`} className="tap font-semibold underline">
                  {order_number}
                </Link>
              </Fact>
            )}
            {kind === 'inquiry_reply' ? (
              <Fact term="Inquiry">
                <Link to={`/admin/inquiries?view=${event_key}`} className="tap font-semibold underline">
                  Open the inquiry
                </Link>
              </Fact>
            ) : null}
            {subject ? (
              <Fact term="Subject">
                <LinkedText text={subject} />
              </Fact>
            ) : null}
            <Fact term="Message">
              {body ? (
                <span className="block rounded-md bg-paper-deep px-4 py-3 break-words whitespace-pre-wrap">
                  <LinkedText text={body} />
                </span>
              ) : (
                'The text is written when the message is sent'
              )}
            </Fact>
            <Fact term="Attempts">
              {message.attempts === 0 ? 'None yet' : formatCount(message.attempts)}
              {message.resent_by ? (
                <>
                  , sent again by <StaffName email={message.resent_by} />
                </>
              ) : null}
            </Fact>
            <Repetitions message={message} />
            {message.gateway_reference ? (
              <Fact term="Number at the gateway">{message.gateway_reference}</Fact>
            ) : null}
          </dl>
        </div>
      </DialogBody>
      <DialogFooter>
        <div className="flex flex-wrap justify-end gap-3 max-md:*:grow">
          <Button tone="quiet" onClick={onClose}>
            Close
          </Button>
          {message.status === 'sent' ? (
            <Button tone="quiet" onClick={() => setRepeating(true)} aria-haspopup="dialog">
              Send again...
            </Button>
          ) : null}
          {canSend(message) ? (
            <Button isBusy={isSending(message)} onClick={() => send(message)}>
              {sendLabel(message)}
            </Button>
          ) : null}
        </div>
      </DialogFooter>
      <RepeatDialog message={message} isOpen={isRepeating} onClose={() => setRepeating(false)} />
    </>
  );
}

/** The other messages with the same text: the first, and those that repeat it. */
function Repetitions({ message: { id, repeat_of } }: { message: Message }) {
  const others = (useRepetitions(repeat_of ?? id) ?? []).filter((each) => each.id !== id);
  if (repeat_of === null && others.length === 0) return null;
  return (
    <Fact term="Sent more than once">
      <ul className="grid gap-1">
        {repeat_of === null ? null : (
          <li>
            <Link to={`/admin/messages?view=${repeat_of}`} className="tap underline">
              The first message
            </Link>
          </li>
        )}
        {others.map(({ id: other, status, resent_by, created_at }) => (
          <li key={other}>
            <Link to={`/admin/messages?view=${other}`} className="tap underline">
              {formatDateTime(created_at)}
            </Link>
            , {messageState(status)[0].toLowerCase()}
            {resent_by ? (
              <>
                , by <StaffName email={resent_by} />
              </>
            ) : null}
          </li>
        ))}
      </ul>
    </Fact>
  );
}

function State({ message }: { message: Message }) {
  const { kind, status, problem, has_priority, sent_at, created_at, next_attempt_at } = message;
  switch (status) {
    case 'sent':
      return <p className="text-sm">Sent {formatDateTime(sent_at ?? created_at)}</p>;
    case 'failed':
      return (
        <Notice tone="danger" title="It was not delivered">
          {problem}
        </Notice>
      );
    case 'unsure':
      return (
        <Notice tone="danger" title="It is unclear whether this message was sent">
          {problem} It isn't sent again automatically, so that no one gets it twice. Ask the customer, or send
          it again.
        </Notice>
      );
    case 'over_budget':
      return (
        <Notice tone="info" title={problem ?? 'Not sent'}>
          {kind === 'order_received' && !has_priority
            ? 'It is sent as soon as the order is paid. You can also send it now.'
            : "It isn't sent automatically. Send it when today's budget allows it."}
        </Notice>
      );
    default:
      return (
        <p className="text-sm">
          {problem && next_attempt_at
            ? `Refused so far: ${problem}. Tried again ${formatDateTime(next_attempt_at)}`
            : `Waiting since ${formatDateTime(created_at)}`}
        </p>
      );
  }
}
