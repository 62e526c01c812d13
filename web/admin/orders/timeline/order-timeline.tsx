// The events and messages of an order, newest first.

import { Link } from 'react-router';
import { useMessagesOf } from '../../messages/message-queries.ts';
import { useNameOf } from '../../ui/staff-name.tsx';
import { formatDateTime } from '../../ui/time/dates.ts';
import { type MessageLine, messageLines } from './message-lines.ts';
import { describeActor, describeEvent, type EventText, type OrderEvent } from './order-event-texts.ts';

const dots = { good: 'bg-leaf-500', bad: 'bg-danger', plain: 'bg-dusk-400' };

interface Entry extends EventText {
  key: string;
  who: string;
  at: string;
  /** What of it can be read, and sent again. */
  messages?: MessageLine['messages'];
}

interface OrderTimelineProps {
  orderId: string;
  events: readonly OrderEvent[];
}

export function OrderTimeline({ orderId, events }: OrderTimelineProps) {
  const { data: messages = [], error } = useMessagesOf(orderId);
  const nameOf = useNameOf();
  const entries: Entry[] = [
    ...messageLines(messages).map(({ resentBy, ...line }) => ({
      ...line,
      who: resentBy ? nameOf(resentBy) : describeActor({ actor: 'shop', actor_email: null }),
    })),
    ...[...events].reverse().map((stored) => {
      const event = { ...stored, actor_email: stored.actor_email && nameOf(stored.actor_email) };
      return {
        ...describeEvent(event),
        key: String(event.id),
        who: describeActor(event),
        at: event.happened_at,
      };
    }),
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
        {entries.map(({ key, what, more, tone, who, at, messages = [] }) => (
          <li
            key={key}
            className="relative pb-4 pl-6 before:absolute before:top-3 before:-bottom-3 before:left-[5px] before:w-0.5 before:bg-line last:pb-0 last:before:hidden"
          >
            <span
              aria-hidden="true"
              className={`absolute top-2 left-0 size-3 rounded-pill ring-4 ring-card ${dots[tone]}`}
            />
            <p className="font-semibold">{what}</p>
            {messages.map(({ id, to, problem }) => (
              <p key={id} className="text-sm wrap-anywhere text-ink-soft">
                <Link to={`/admin/messages?view=${id}`} className="tap underline">
                  {to}
                </Link>
                {problem ? `: ${problem}` : ''}
              </p>
            ))}
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
