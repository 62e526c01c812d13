// Notices about M-PESA's statement: not set up, late, or with a missed period.
import { Notice } from '../../ui/notice.tsx';
import { formatDateTime } from '../ui/time/dates.ts';
import type { Missed, StatementStatus } from './statement-status.ts';

/** The statement is pulled every half hour; a few failed pulls are not shown. */
const behindMs = 3 * 3_600_000;

interface StatementNotice {
  tone: 'info' | 'danger';
  title: string;
  text: string;
}

export function listStatementNotices(
  status: StatementStatus | undefined,
  missed: readonly Missed[],
): StatementNotice[] {
  const notices: StatementNotice[] = [];
  if (status && status.unsettled_messages > 0) {
    notices.push({
      tone: 'danger',
      title: `${status.unsettled_messages === 1 ? 'One message' : `${status.unsettled_messages} messages`} of M-PESA could not be settled`,
      text: "Nothing is lost: M-PESA's messages are stored and tried again every half minute. The shop's log has the reason.",
    });
  }
  const isBehind =
    status?.statement_registered_at &&
    status.covered_until !== null &&
    Date.parse(status.checked_at) - Date.parse(status.covered_until) > behindMs;
  if (isBehind && status.covered_until) {
    notices.push({
      tone: 'danger',
      title: `The statement is read until ${formatDateTime(status.covered_until)} only`,
      text: `${status.problem ? `The last attempt failed: ${status.problem}. ` : ''}It is tried again by itself. M-PESA gives the last 48 hours; older payments cannot be compared.`,
    });
  }
  for (const { starts_at, ends_at } of missed) {
    notices.push({
      tone: 'danger',
      title: `No statement covers ${formatDateTime(starts_at)} to ${formatDateTime(ends_at)}`,
      text: "The shop was offline for more than the 48 hours that M-PESA gives. Compare this time with the statement in M-PESA's own portal.",
    });
  }
  if (status && !status.till_registered_at) {
    notices.push({
      tone: 'info',
      title: 'M-PESA does not report payments by hand to the shop yet',
      text: 'Until its addresses are registered (Settings, Payments), money that customers send by hand is seen in the statement at best, and confirmed by you.',
    });
  }
  if (status && !status.statement_registered_at) {
    notices.push({
      tone: 'info',
      title: "M-PESA's statement is not registered",
      text: 'Without it, payments that are missing at M-PESA are not found. See the operating guide.',
    });
  }
  return notices;
}

export function StatementNotices({ notices }: { notices: readonly StatementNotice[] }) {
  return notices.map(({ tone, title, text }) => (
    <Notice key={title} tone={tone} title={title}>
      {text}
    </Notice>
  ));
}
