// The events and messages of an order, newest first.
import { Link } from 'react-router';
import { useMessagesOf } from '../../messages/message-queries.ts';
import { describeMessage } from '../../messages/message-texts.ts';
import { formatDateTime } from '../../ui/dates.ts';
import { describeActor, describeEvent, type EventText, type OrderEvent } from './order-event-texts.ts';

const dots = { good: 'bg-leaf-500', bad: 'bg-danger', plain: 'bg-dusk-400' };

interface Entry extends EventText {
  key: string;
  who: string;
  at: string;
  /** Id of its message. */
  message?: string;
}

interface OrderTimelineProps {
  orderId: string;
  events: readonly OrderEvent[];
}

export function OrderTimeline({ orderId, events }: OrderTimelineProps) {
  const { data: messages = [], error } = useMessagesOf(orderId);
  const entries: Entry[] = [
    ...messages.map((message) => ({
      ...describeMessage(message),
      key: message.id,
      who: message.resent_by ?? 'The shop itself',
      at: message.sent_at ?? (message.status === 'waiting' ? message.created_at : message.updated_at),
      message: message.id,
    })),
    ...[...events].reverse().map((event) => ({
      ...describeEvent(event),
      key: String(event.id),
      who: describeActor(event),
      at: event.happened_at,
    })),
  ];
  // Events with equal times stay in their order.
  entries.sort((one, other) => Date.parse(other.at) - Date.parse(one.at));
  return (
    <>
      {error && messages.length === 0 ? (
        <p role="alert" className="mb-3 text-sm font-semibold text-danger">
          The messages to the customer could not be loaded.
        </p>
      ) : null}
      <ol className="grid">
        {entries.map(({ key, what, more, tone, who, at, message }) => (
          <li
            key={key}
            className="relative pb-4 pl-6 before:absolute before:top-3 before:-bottom-3 before:left-[5px] before:w-0.5 before:bg-line last:pb-0 last:before:hidden"
          >
            <span
              aria-hidden="true"
              className={`absolute top-2 left-0 size-3 rounded-pill ring-4 ring-card ${dots[tone]}`}
            />
            <p className="font-semibold">
              {message ? (
                <Link to={`/admin/messages?view=${message}`} className="tap underline">
                  {what}
                </Link>
              ) : (
                what
              )}
            </p>
            {more ? <p className="text-sm break-words text-ink-soft">{more}</p> : null}
            <p className="text-xs break-words text-ink-soft">
              {who} · <time dateTime={at}>{formatDateTime(at)}</time>
            </p>
          </li>
        ))}
      </ol>
    </>
  );
}
