// Shown while messages to customers are withheld, or a daily budget of them is used up.
import { Link } from 'react-router';
import { Notice } from '../../ui/notice.tsx';
import { useMay } from '../layout/roles/use-member.tsx';
import { useMessageBudgets } from '../messages/message-queries.ts';
import { describeWithheld } from './describe-status.ts';

export function WithheldNotice() {
  const may = useMay();
  const withheld = describeWithheld(useMessageBudgets().data ?? []);
  if (!withheld) return null;
  return (
    <Notice tone="danger" title={withheld.title}>
      {withheld.text}{' '}
      <Link to="/admin/messages?status=over_budget" className="tap font-semibold underline">
        See the messages
      </Link>
      {withheld.isUsedUp && may('settings') ? (
        <>
          {' '}
          or{' '}
          <Link to="/admin/settings?section=messages" className="tap font-semibold underline">
            raise the budget
          </Link>
        </>
      ) : null}
      .
    </Notice>
  );
}
