// A test mail and a test text: queued as every message is, and watched until the provider has answered.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { isEmail } from '../../../domain/people/email.ts';
import { normalisePhone } from '../../../domain/people/phone.ts';
import type { OutboxMessageChannel, OutboxMessageStatus } from '../../../supabase/types.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { TextField } from '../../ui/field.tsx';
import { dataOf } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import { useIsPast } from './use-is-past.ts';

const channels = {
  mail: {
    label: 'Email address',
    button: 'Send a test mail',
    problem: 'Please enter a valid email address',
    accepted: 'The mail server accepted it. Look into the mailbox, and into its spam folder.',
    isValid: isEmail,
  },
  text: {
    label: 'Phone number',
    button: 'Send a test text',
    problem: 'Please enter a valid phone number',
    accepted: 'The gateway accepted it. It should arrive within a minute.',
    isValid: (typed: string) => normalisePhone(typed) !== null,
  },
} as const;

export function TestMessages() {
  const { email } = useMember();
  return (
    <Card
      title="Test messages"
      description="Sends a message to you, the way customers get theirs. Ten an hour of each; they count as messages of the day."
    >
      <div className="grid gap-6 md:grid-cols-2">
        <Test channel="mail" suggested={email} />
        <Test channel="text" suggested="" />
      </div>
    </Card>
  );
}

/** Longer than the database waits for a process that sends it. */
const patienceMs = 30_000;

function Test({ channel, suggested }: { channel: OutboxMessageChannel; suggested: string }) {
  const { tables } = useMember().staff;
  const { label, button, problem: words, accepted, isValid } = channels[channel];
  const [recipient, setRecipient] = useState(suggested);
  const [problem, setProblem] = useState<string>();
  const [sent, setSent] = useState<{ id: string; to: string; at: number } | null>(null);
  const send = useSave<string, { id: string }>({
    write: async (to) => dataOf(await tables.rpc('send_test_message', { channel, recipient: to })),
    failure: 'Failed to send the test',
    isUnsafeToRepeat: true,
    refresh: ['messages'],
    isShownElsewhere: (error) => {
      setProblem(error.message);
      return true;
    },
    onSuccess: (message, to) => setSent(message ? { id: message.id, to, at: Date.now() } : null),
  });
  const isOver = useIsPast(sent ? sent.at + patienceMs : null);
  const state = useQuery({
    queryKey: ['messages', 'test', sent?.id],
    enabled: sent !== null,
    queryFn: async ({ signal }) =>
      dataOf(
        await tables
          .from('outbox_messages')
          .select('status, problem')
          .eq('id', sent?.id ?? '')
          .abortSignal(signal)
          .single(),
      ),
    refetchInterval: ({ state: { data } }) => (isOpen(data?.status) && !isOver ? 1000 : false),
    staleTime: 0,
  });
  const status = state.data?.status;
  const isWaiting = sent !== null && isOpen(status) && !isOver;

  function submit() {
    if (send.isPending || isWaiting) return;
    setSent(null);
    const typed = recipient.trim();
    const found = isValid(typed) ? undefined : words;
    setProblem(found);
    if (!found) send.mutate(typed);
  }

  return (
    <div className="grid content-start justify-items-start gap-3 [&>:first-child]:w-full">
      <TextField
        label={label}
        type={channel === 'mail' ? 'email' : 'tel'}
        autoComplete="off"
        maxLength={254}
        value={recipient}
        problem={problem}
        // The form around it is that of the settings, which Enter would save.
        onKeyDown={(event) => {
          if (event.key !== 'Enter') return;
          event.preventDefault();
          submit();
        }}
        onChange={({ target }) => {
          setRecipient(target.value);
          setProblem(undefined);
        }}
      />
      <Button tone="quiet" isBusy={send.isPending || isWaiting} onClick={submit}>
        {send.isPending || isWaiting ? 'Sending...' : button}
      </Button>
      <p role="status" className="text-sm wrap-anywhere empty:hidden">
        {sent === null ? null : status === 'sent' ? (
          <>
            <strong className="text-success">Sent to {sent.to}.</strong> {accepted}
          </>
        ) : status === undefined || isWaiting ? (
          `To ${sent.to}: waiting for the answer...`
        ) : isOpen(status) ? (
          <strong className="text-danger">Nothing was sent yet. Does a process of the shop run?</strong>
        ) : (
          <>
            <strong className="text-danger">
              {status === 'unsure' ? `It is not known whether ${sent.to} got it.` : `Not sent to ${sent.to}.`}
            </strong>{' '}
            {state.data?.problem}
          </>
        )}
      </p>
    </div>
  );
}

const isOpen = (status: OutboxMessageStatus | undefined): boolean =>
  status === undefined || status === 'waiting' || status === 'sending';
