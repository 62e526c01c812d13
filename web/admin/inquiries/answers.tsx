// The answers to an inquiry, as a conversation: who wrote what, and what became of its message.
import { Link } from 'react-router';
import { MessageBadge } from '../messages/message-columns.tsx';
import { LinkedText } from '../ui/linked-text.tsx';
import { StaffName } from '../ui/staff-name.tsx';
import { useNow } from '../ui/time/age.tsx';
import { formatClock, formatDateTime } from '../ui/time/dates.ts';
import {
  type AnswerMessage,
  type Inquiry,
  type InquiryAnswer,
  useAnswerMessages,
  useAnswers,
} from './inquiry-queries.ts';

const ways = { mail: 'email', text: 'SMS', elsewhere: 'by phone or chat' } as const;
const messageLabels = { mail: 'Email', text: 'SMS' } as const;

export function Answers({ inquiry: { id } }: { inquiry: Inquiry }) {
  const answers = useAnswers(id);
  const messages = useAnswerMessages(id);
  if (answers.error)
    return <p role="alert">The answers could not be loaded. Please open the inquiry again.</p>;
  if (!answers.data || answers.data.length === 0) return null;
  return (
    <section aria-label="Answers" className="grid gap-3">
      <h3 className="text-sm font-semibold text-ink-soft">Answers</h3>
      <ol className="grid gap-3">
        {asReplies(answers.data).map((reply) => (
          <Answer
            key={reply[0].id}
            reply={reply}
            messages={
              messages.data?.filter((each) =>
                reply.some(({ id }) => [each.id, each.repeat_of].includes(id)),
              ) ?? []
            }
          />
        ))}
      </ol>
    </section>
  );
}

/** Answers, a mail together with the text of the same reply. */
type Reply = [InquiryAnswer, ...InquiryAnswer[]];

function asReplies(answers: readonly InquiryAnswer[]): Reply[] {
  const replies = new Map<string, Reply>();
  for (const answer of answers) {
    const reply = replies.get(answer.answered_at);
    // The mail first: it has all characters.
    if (!reply) replies.set(answer.answered_at, [answer]);
    else if (answer.way === 'mail') reply.unshift(answer);
    else reply.push(answer);
  }
  return [...replies.values()];
}

function Answer({ reply, messages }: { reply: Reply; messages: AnswerMessage[] }) {
  const [{ answered_at, answered_by, body }] = reply;
  const now = useNow();
  return (
    <li className="ml-6 grid gap-1.5">
      <p className="text-sm text-ink-soft">
        Answered by <StaffName email={answered_by} />,{' '}
        <time dateTime={answered_at} title={formatDateTime(answered_at)}>
          {formatClock(answered_at, now)}
        </time>
        , {reply.map(({ way }) => ways[way]).join(' and ')}
      </p>
      {body ? (
        <p className="rounded-md border border-leaf-300 bg-success-soft px-4 py-3 wrap-anywhere whitespace-pre-wrap">
          <LinkedText text={body} />
        </p>
      ) : null}
      {messages.map(({ id, channel, status, problem, repeat_of, resent_by }) => (
        <p key={id} className="flex flex-wrap items-center gap-x-3 gap-y-1 text-sm text-ink-soft">
          {reply.length > 1 ? <span>{messageLabels[channel]}</span> : null}
          <MessageBadge status={status} isSmall />
          {repeat_of && resent_by ? (
            <span>
              Sent again by <StaffName email={resent_by} />
            </span>
          ) : null}
          {problem ? <span className="wrap-anywhere">{problem}</span> : null}
          <Link to={`/admin/messages?view=${id}`} className="tap underline">
            Open the message
          </Link>
        </p>
      ))}
    </li>
  );
}
