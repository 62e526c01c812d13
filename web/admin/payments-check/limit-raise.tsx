// Shows who raised the refund limit in the last week, so that no one does it unnoticed.
import { useNameOf } from '../ui/staff-name.tsx';
import { describeLimitRaise } from './describe-limit-raise.ts';
import { usePaymentHealth } from './payment-health.ts';

export function LimitRaise() {
  const raise = usePaymentHealth().data?.limit_raise;
  const nameOf = useNameOf();
  return raise ? (
    <p className="mt-3 text-sm font-semibold text-ember-800">{describeLimitRaise(raise, nameOf)}</p>
  ) : null;
}
