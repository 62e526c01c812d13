// A message in the list, and in the export.

import { Link } from 'react-router';
import { formatPhone } from '../../../domain/people/phone.ts';
import type { OutboxMessageStatus } from '../../../supabase/types.ts';
import { Badge } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { useDialogOpener } from '../dialogs/use-dialog-parameter.ts';
import type { CsvColumn } from '../list/export/csv.ts';
import { phoneCell } from '../list/phone-cell.ts';
import type { Column } from '../list/row-list.tsx';
import { unsentMessageStatuses } from '../status/states.ts';
import { Age } from '../ui/time/age.tsx';
import { formatDateTime, formatForFile } from '../ui/time/dates.ts';
import type { Message, useSendAgain } from './message-queries.ts';
import { channelLabel, kindLabel, messageState } from './message-texts.ts';

export const MessageBadge = ({ status, isSmall }: { status: OutboxMessageStatus; isSmall?: boolean }) => {
  const [words, tone] = messageState(status);
  return (
    <Badge tone={tone} isSmall={isSmall}>
      {words}
    </Badge>
  );
};

/** Whether staff must send it again. Without its recipient, which is removed after a time, this is impossible. */
export const canSend = ({ status, recipient }: Pick<Message, 'status' | 'recipient'>): boolean =>
  recipient !== '' && unsentMessageStatuses.includes(status);

export const sendLabel = ({ status }: Pick<Message, 'status'>): string =>
  status === 'over_budget' ? 'Send now' : 'Send again';

type SendingAgain = ReturnType<typeof useSendAgain>;

export function messageColumns(again: SendingAgain): Column<Message>[] {
  return [
    {
      title: 'Message',
      show: ({ kind }) => <span className="font-semibold">{kindLabel(kind)}</span>,
    },
    {
      title: 'Customer',
      sort: 'customer',
      show: ({ customer_name, recipient }) => (
        <span className="block max-w-72 wrap-anywhere">
          {customer_name}
          <span className="block wrap-anywhere text-ink-soft">{formatPhone(recipient)}</span>
        </span>
      ),
    },
    {
      title: 'Order #',
      sort: 'order',
      show: ({ order_id, order_number }) =>
        order_id === null ? (
          'None'
        ) : (
          <Link to={`/admin/orders/${order_id}`} className="tap font-semibold whitespace-nowrap underline">
            {order_number}
          </Link>
        ),
    },
    { title: 'By', show: ({ channel }) => channelLabel(channel) },
    {
      title: 'Date',
      sort: 'date',
      show: ({ created_at, sent_at }) => (
        <time dateTime={sent_at ?? created_at} className="whitespace-nowrap">
          {formatDateTime(sent_at ?? created_at)}
        </time>
      ),
    },
    {
      title: 'Status',
      sort: 'status',
      show: ({ status, problem }) => (
        <>
          <MessageBadge status={status} />
          {status === 'over_budget' && problem ? (
            <span className="mt-1 block max-w-56 text-sm text-ink-soft">
              {problem.replace(/^Not sent: /, '')}
            </span>
          ) : null}
        </>
      ),
    },
    {
      title: 'Actions',
      show: (message) => (
        <span className="flex items-center gap-2">
          <ViewButton message={message} />
          <SendButton message={message} again={again} />
        </span>
      ),
    },
  ];
}

/** On phones: text and recipient next to the controls. */
export function MessageRow({ message, again }: { message: Message; again: SendingAgain }) {
  const { kind, status, channel, customer_name, order_id, order_number, recipient } = message;
  const at = message.sent_at ?? message.created_at;
  return (
    <div className="grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-3 sm:gap-x-6 md:grid-cols-[minmax(0,1fr)_12rem]">
      <div className="grid min-w-0 grid-cols-1 gap-x-6 text-sm leading-5.5 md:grid-cols-2">
        <p className="flex items-baseline gap-2">
          <span className="leading-5 font-semibold">{kindLabel(kind)}</span>
          <span className="shrink-0">
            <Age at={at} />
          </span>
        </p>
        <p className="flex gap-2">
          {order_id === null ? null : (
            <Link to={`/admin/orders/${order_id}`} className="shrink-0 py-px underline">
              {order_number}
            </Link>
          )}
          <bdi className="truncate">{customer_name}</bdi>
        </p>
        <p className="flex items-center gap-2 md:col-span-2">
          <MessageBadge status={status} isSmall />
          <span className="truncate text-ink-soft" title={recipient}>
            {channelLabel(channel)}
            {recipient ? `: ${formatPhone(recipient)}` : ''}
          </span>
        </p>
      </div>
      <div className="grid sm:flex sm:flex-row-reverse sm:gap-2">
        <ViewButton message={message} />
        <SendButton message={message} again={again} className="bg-transparent! px-2!" />
      </div>
    </div>
  );
}

interface SendButtonProps {
  message: Message;
  again: SendingAgain;
  className?: string;
}

function SendButton({ message, again: { send, isSending }, className = '' }: SendButtonProps) {
  if (!canSend(message)) return null;
  return (
    <Button
      tone="quiet"
      isBusy={isSending(message)}
      onClick={() => send(message)}
      className={`whitespace-nowrap ${className}`}
    >
      {sendLabel(message)}
      <span className="sr-only">
        : {kindLabel(message.kind)}, {subjectOf(message)}
      </span>
    </Button>
  );
}

/** What the message is about: its order, or the subscriber's address for a newsletter e-mail. */
const subjectOf = ({ order_number, recipient }: Message): string => order_number || recipient;

function ViewButton({ message }: { message: Message }) {
  const open = useDialogOpener('view');
  return (
    <Button tone="quiet" onClick={() => open(message.id)} aria-haspopup="dialog" data-row-link>
      View
      <span className="sr-only">
        : {kindLabel(message.kind)}, {subjectOf(message)}
      </span>
    </Button>
  );
}

// Without their text, which contains the order's access key.
export const exportColumns: CsvColumn<Message>[] = [
  { title: 'Message', value: ({ kind }) => kindLabel(kind) },
  { title: 'By', value: ({ channel }) => channelLabel(channel) },
  { title: 'Order', value: ({ order_number }) => order_number },
  { title: 'Customer', value: ({ customer_name }) => customer_name },
  { title: 'Recipient', value: ({ recipient }) => phoneCell(recipient) },
  { title: 'Status', value: ({ status }) => messageState(status)[0] },
  { title: 'Problem', value: ({ problem }) => problem },
  { title: 'Made (Nairobi time)', value: ({ created_at }) => formatForFile(created_at) },
  { title: 'Sent (Nairobi time)', value: ({ sent_at }) => formatForFile(sent_at) },
];
