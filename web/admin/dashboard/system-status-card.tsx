// The system status, as text besides colours.
import { useEffect, useState } from 'react';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { dataOf } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { useInstallation } from '../layout/use-installation.ts';
import { useMember } from '../layout/use-member.tsx';
import { useMessageBudgets } from '../messages/message-queries.ts';
import { type PaymentHealth, usePaymentHealth } from '../payments-check/payment-health.ts';
import { useStatementStatus } from '../reconciliation/reconciliation-queries.ts';
import { formatDateTime } from '../ui/dates.ts';
import { useAuthHealth, useSystemStatus } from './dashboard-queries.ts';
import {
  describeAuthentication,
  describeBackup,
  describeDatabase,
  describeMessages,
  describeMessagesToCheck,
  describePayments,
  describeRefunds,
  describeStatement,
  type Line,
  type State,
} from './describe-status.ts';

/** A backup without a result after this time counts as failed. */
const backupTimeoutMs = 5 * 60_000;

export function SystemStatusCard() {
  const { tables } = useMember().staff;
  const { url, paymentMode } = useInstallation();
  const isHosted = url !== '';
  // The last attempt at the time of the request.
  const [awaited, setAwaited] = useState<{ since: string | null } | null>(null);
  const system = useSystemStatus(awaited !== null);
  const authentication = useAuthHealth();
  const health = usePaymentHealth().data ?? null;
  const budgets = useMessageBudgets();
  const status = system.error ? null : (system.data ?? null);

  const lastAttempt = system.data?.last_attempt_at ?? null;
  const isDone = awaited !== null && lastAttempt !== awaited.since;
  useEffect(() => {
    if (!awaited) return;
    if (isDone) setAwaited(null);
    const timer = setTimeout(() => setAwaited(null), backupTimeoutMs);
    return () => clearTimeout(timer);
  }, [awaited, isDone]);

  const backUp = useSave({
    write: async () => dataOf(await tables.rpc('request_backup')),
    success: 'A backup is being made',
    failure: 'Failed to ask for a backup',
    refresh: [],
    onSuccess: () => setAwaited({ since: lastAttempt }),
  });

  const statementStatus = useStatementStatus().data;
  const statement = describeStatement(statementStatus, formatDateTime);
  const messagesToCheck = describeMessagesToCheck(statementStatus);
  const isBackupMade = !isHosted && status?.last_backup_at;
  return (
    <Card title="System Status">
      <dl className="grid gap-4">
        <StatusLine
          label="Database"
          line={system.isPending ? null : describeDatabase(status ? (system.data?.tookMs ?? null) : null)}
        />
        <StatusLine
          label="Authentication"
          line={
            authentication.isPending
              ? null
              : describeAuthentication(authentication.error ? null : (authentication.data ?? null))
          }
        />
        <StatusLine
          label="Payments"
          line={system.isPending ? null : describePayments(paymentMode, status, health)}
        />
        {statement ? <StatusLine label="M-PESA Statement" line={statement} /> : null}
        {messagesToCheck ? <StatusLine label="M-PESA Messages" line={messagesToCheck} /> : null}
        <RefundsLine health={health} />
        <StatusLine
          label="Messages"
          line={budgets.isPending ? null : describeMessages(budgets.error ? null : (budgets.data ?? null))}
        />
        <StatusLine
          label="Last Backup"
          line={system.isPending && !isHosted ? null : describeBackup(isHosted, status)}
          title={isBackupMade ? formatDateTime(isBackupMade) : undefined}
        />
      </dl>
      {isHosted ? null : (
        <Button
          tone="quiet"
          className="mt-4"
          isBusy={backUp.isPending || awaited !== null}
          onClick={() => backUp.mutate()}
        >
          {awaited ? 'Backing up...' : 'Back up now'}
        </Button>
      )}
    </Card>
  );
}

/** Shown while a refund needs staff. */
function RefundsLine({ health }: { health: PaymentHealth | null }) {
  const line = health && describeRefunds(health);
  return line ? <StatusLine label="Refunds" line={line} /> : null;
}

const dots: Record<State, string> = { ok: 'bg-leaf-500', attention: 'bg-ember-400', problem: 'bg-danger' };
const words: Record<State, string> = { ok: '', attention: 'Needs attention', problem: 'Problem' };
const colours: Record<State, string> = {
  ok: 'text-ink',
  attention: 'text-ember-800',
  problem: 'text-danger',
};

function StatusLine({
  label,
  line,
  title,
}: {
  label: string;
  /** Null while it is being measured. */
  line: Line | null;
  title?: string | undefined;
}) {
  return (
    <div className="flex flex-wrap items-baseline gap-x-3">
      <dt className="flex grow items-center gap-3 font-semibold">
        <span
          aria-hidden="true"
          className={`size-2.5 shrink-0 rounded-pill ${line ? dots[line.state] : 'bg-line motion-safe:animate-pulse'}`}
        />
        {label}
      </dt>
      <dd
        title={title}
        className={`text-right font-semibold ${line ? colours[line.state] : 'text-ink-faint'}`}
      >
        {line ? line.value : 'Measuring...'}
      </dd>
      {line ? (
        <dd className="basis-full pl-5.5 text-sm text-ink-soft">
          {words[line.state] ? <strong className={colours[line.state]}>{words[line.state]}: </strong> : null}
          {line.detail}
        </dd>
      ) : null}
    </div>
  );
}
