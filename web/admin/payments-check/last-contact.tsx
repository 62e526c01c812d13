// The last messages to and from M-PESA.
import { type CallbackSource, callbackSource } from '../../../domain/mpesa/callback-url.ts';
import { Card } from '../../ui/card.tsx';
import { labelOf } from '../status/label-of.ts';
import { formatDateTime } from '../ui/time/dates.ts';
import { usePaymentHealth } from './payment-health.ts';

const senders: Record<CallbackSource, string> = {
  mpesa: "an address on M-PESA's published list",
  'mpesa network': "M-PESA's network, though not on its published list",
  'this machine': 'this machine (the simulator)',
  'private network': "a private network: a proxy that doesn't pass on the caller's address (TRUSTED_PROXIES)",
  'unknown source': "an address that is not M-PESA's: check what it sent before you trust it",
  unknown: 'an unknown address',
};
const outcomes: Record<string, string> = {
  accepted: 'accepted by M-PESA',
  refused: 'refused by M-PESA',
  unknown: 'the answer was lost',
};

export function LastContact() {
  const { data: health, error } = usePaymentHealth();
  return (
    <Card title="Last contact with M-PESA">
      {health ? (
        <dl className="grid gap-4">
          <Line term="Sign-in (token)">
            {health.token_fresh_until === null
              ? 'Not requested yet'
              : Date.parse(health.token_fresh_until) > Date.parse(health.checked_at)
                ? `Valid until ${formatDateTime(health.token_fresh_until)}, renewed automatically`
                : `Expired ${formatDateTime(health.token_fresh_until)}. The next prompt requests a new one`}
          </Line>
          <Line term="Last prompt">
            {health.last_push
              ? `${formatDateTime(health.last_push.received_at)}: ${health.last_push.outcome ? labelOf(outcomes, health.last_push.outcome) : 'sent'}`
              : 'None yet'}
          </Line>
          <Line term="Last callback">
            {health.last_callback
              ? `${formatDateTime(health.last_callback.received_at)}, from ${senders[callbackSource(health.last_callback.source_address)]}`
              : 'None yet. If customers pay and no callback arrives, test the public address below.'}
          </Line>
        </dl>
      ) : (
        <p className="text-ink-soft">{error ? 'This could not be loaded.' : 'Reading...'}</p>
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
