// Shown while a daily budget of messages to customers is used up.
import { Link } from 'react-router';
import { Notice } from '../../ui/notice.tsx';
import { useMessageBudgets } from '../messages/message-queries.ts';
import { describeUsedUp } from './describe-status.ts';

export function UsedUpNotice() {
  const usedUp = describeUsedUp(useMessageBudgets().data ?? []);
  if (!usedUp) return null;
  return (
    <Notice tone="danger" title={usedUp.title}>
      {usedUp.text}{' '}
      <Link to="/admin/messages?status=over_budget" className="tap font-semibold underline">
        See the messages
      </Link>{' '}
      or{' '}
      <Link to="/admin/settings" className="tap font-semibold underline">
        raise the budget
      </Link>
      .
    </Notice>
  );
}
