// The sessions of this account, and a button to end all others.
import { useState } from 'react';
import type { Staff } from '../../lib/staff.ts';
import { Badge } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { Notice } from '../../ui/notice.tsx';
import { useAttempt } from '../data/use-attempt.ts';
import { formatDateTime } from '../ui/time/dates.ts';
import { describeDevice } from './describe-device.ts';

interface OwnSession {
  id: string;
  created_at: string;
  last_seen_at: string;
  user_agent: string | null;
  address: string | null;
  is_current: boolean;
}

interface OtherSessionsProps {
  staff: Staff;
  sessions: OwnSession[];
  onChanged(): void;
}

export function OtherSessions({ staff, sessions, onChanged }: OtherSessionsProps) {
  const { isBusy, problem, attempt } = useAttempt('The other sessions could not be ended');
  const [isDone, setDone] = useState(false);
  const hasOthers = sessions.some(({ is_current }) => !is_current);

  async function endOthers() {
    const isEnded = await attempt(
      async () => (await (await staff.auth()).signOut({ scope: 'others' })).error,
    );
    setDone(isEnded);
    if (!isEnded) return;
    // The button has nothing left to do, and a disabled one loses the focus.
    document.querySelector('main')?.focus({ preventScroll: true });
    onChanged();
  }

  return (
    <Card
      title="Where you are signed in"
      description="A device you do not know? End its session and change your password."
    >
      <div className="grid gap-4">
        {problem ? <Notice tone="danger" title={problem} /> : null}
        {isDone ? <Notice tone="success" title="You are signed out everywhere else" /> : null}
        <ul className="grid divide-y divide-line rounded-md border border-line">
          {sessions.map(({ id, user_agent, address, created_at, last_seen_at, is_current }) => (
            <li key={id} className="flex flex-wrap items-center justify-between gap-x-3 gap-y-1 px-4 py-2.5">
              <p className="min-w-0">
                <span className="font-semibold">{describeDevice(user_agent)}</span>
                <span className="block text-sm break-words text-ink-soft">
                  {address ? `${address} · ` : ''}since {formatDateTime(created_at)},{' '}
                  {is_current ? 'in use now' : `last seen ${formatDateTime(last_seen_at)}`}
                </span>
              </p>
              {is_current ? <Badge tone="green">This device</Badge> : null}
            </li>
          ))}
        </ul>
        <Button
          tone="outline"
          isBusy={isBusy}
          disabled={!hasOthers}
          onClick={endOthers}
          className="justify-self-start"
        >
          Sign out everywhere else
        </Button>
      </div>
    </Card>
  );
}
