// What was last sent to M-PESA and heard from it.
import { type SenderKind, senderKind } from '../../../domain/notice-address.ts';
import { Card } from '../../ui/card.tsx';
import { formatDateTime } from '../dates.ts';
import { usePaymentHealth } from './payment-health.ts';

const senders: Record<SenderKind, string> = {
  mpesa: "an address on M-PESA's published list",
  'mpesa network': "M-PESA's network, though not on its published list",
  'this machine': 'this very machine (the simulator)',
  'private network': 'a private network: a proxy that does not tell who called (TRUSTED_PROXIES)',
  'somebody else': "an address that is not M-PESA's: look at what it said before you trust it",
  unknown: 'an unknown address',
};
const outcomes: Record<string, string> = {
  accepted: 'M-PESA took it',
  refused: 'M-PESA refused it',
  unknown: 'the answer was lost',
};

export function LastHeard() {
  const { data: health, error } = usePaymentHealth();
  return (
    <Card title="Last heard">
      {health ? (
        <dl className="grid gap-4">
          <Line term="Sign-in (token)">
            {health.token_fresh_until === null
              ? 'Never asked for yet'
              : Date.parse(health.token_fresh_until) > Date.parse(health.checked_at)
                ? `Good until ${formatDateTime(health.token_fresh_until)}, renewed by itself`
                : `Ran out ${formatDateTime(health.token_fresh_until)}; the next prompt asks for another`}
          </Line>
          <Line term="Last prompt">
            {health.last_push
              ? `${formatDateTime(health.last_push.at)}: ${outcomes[health.last_push.outcome ?? ''] ?? 'sent'}`
              : 'None yet'}
          </Line>
          <Line term="Last notice">
            {health.last_notice
              ? `${formatDateTime(health.last_notice.at)}, from ${senders[senderKind(health.last_notice.address)]}`
              : 'None yet. If prompts are paid and nothing is ever heard, test the public address below.'}
          </Line>
        </dl>
      ) : (
        <p className="text-ink-soft">{error ? 'The database could not be asked.' : 'Reading...'}</p>
      )}
    </Card>
  );
}

function Line({ term, children }: { term: string; children: React.ReactNode }) {
  return (
    <div>
      <dt className="text-sm text-ink-soft">{term}</dt>
      <dd className="font-semibold">{children}</dd>
    </div>
  );
}
