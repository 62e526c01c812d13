// The system status.
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { useMay } from '../layout/roles/use-member.tsx';
import { useInstallation } from '../layout/use-installation.ts';
import { useMessageBudgets } from '../messages/message-queries.ts';
import { type PaymentHealth, usePaymentHealth } from '../payments-check/payment-health.ts';
import { useStatementStatus } from '../reconciliation/statement-status.ts';
import { formatDateTime } from '../ui/time/dates.ts';
import { useAuthHealth } from './dashboard-queries.ts';
import {
  describeAuthentication,
  describeDatabase,
  describeMessages,
  describeMessagesToCheck,
  describePayments,
  describeRefunds,
  describeStatement,
} from './describe-status.ts';
import { StatusLine } from './status-line.tsx';
import { useBackup } from './use-backup.ts';

export function SystemStatusCard() {
  const { paymentMode } = useInstallation();
  const { system, status, isHosted, line, title, isBusy, isMade, backUp } = useBackup();
  const authentication = useAuthHealth();
  const may = useMay();
  const health = usePaymentHealth().data ?? null;
  const budgets = useMessageBudgets();

  const statementStatus = useStatementStatus().data;
  const statement = describeStatement(statementStatus, formatDateTime);
  const messagesToCheck = describeMessagesToCheck(statementStatus);
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
        <StatusLine label="Last Backup" line={line} title={title} />
      </dl>
      {isHosted || !may('settings') ? null : (
        <Button tone="quiet" className="mt-4" isBusy={isBusy} onClick={backUp}>
          {isMade ? 'Backing up...' : 'Back up now'}
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
