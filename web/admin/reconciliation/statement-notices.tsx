// Notices about M-PESA's statement: not set up, late, or with a missed period.
import { Notice } from '../../ui/notice.tsx';
import { formatDateTime } from '../ui/dates.ts';
import type { Missed, StatementStatus } from './reconciliation-queries.ts';

/** The statement is pulled every half hour; a few failed pulls are not shown. */
const behindMs = 3 * 3_600_000;

export function StatementNotices({
  status,
  missed,
}: {
  status: StatementStatus | undefined;
  missed: readonly Missed[];
}) {
  const isBehind =
    status?.statement_registered_at &&
    status.covered_until !== null &&
    Date.parse(status.checked_at) - Date.parse(status.covered_until) > behindMs;
  return (
    <>
      {status && !status.till_registered_at ? (
        <Notice tone="info" title="M-PESA does not report payments by hand to the shop yet">
          Until its addresses are registered (see the operating guide), money that customers send by hand is
          seen in the statement at best, and confirmed by you.
        </Notice>
      ) : null}
      {status && !status.statement_registered_at ? (
        <Notice tone="info" title="M-PESA's statement is not registered">
          Without it, payments that are missing at M-PESA are not found. See the operating guide.
        </Notice>
      ) : null}
      {status && status.unsettled_messages > 0 ? (
        <Notice
          tone="danger"
          title={`${status.unsettled_messages === 1 ? 'One message' : `${status.unsettled_messages} messages`} of M-PESA could not be settled`}
        >
          Nothing is lost: M-PESA's messages are stored and tried again every half minute. The shop's log has
          the reason.
        </Notice>
      ) : null}
      {isBehind && status?.covered_until ? (
        <Notice
          tone="danger"
          title={`The statement is read until ${formatDateTime(status.covered_until)} only`}
        >
          {status.problem ? `The last attempt failed: ${status.problem}. ` : ''}It is tried again by itself.
          M-PESA gives the last 48 hours; older payments cannot be compared.
        </Notice>
      ) : null}
      {missed.map(({ starts_at, ends_at }) => (
        <Notice
          key={starts_at}
          tone="danger"
          title={`No statement covers ${formatDateTime(starts_at)} to ${formatDateTime(ends_at)}`}
        >
          The shop was offline for more than the 48 hours that M-PESA gives. Compare this time with the
          statement in M-PESA's own portal.
        </Notice>
      ))}
    </>
  );
}
