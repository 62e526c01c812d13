// That the refund limit was raised, in one sentence.
import { formatKes } from '../../../domain/money.ts';
import { formatDateTime } from '../dates.ts';
import type { PaymentHealth } from './payment-health.ts';

/** Who, when, from what to what, and since when it counts. */
export function describeLimitRaise(raise: NonNullable<PaymentHealth['limit_raise']>): string {
  return `${raise.raised_by_email ?? 'Somebody'} raised the refund limit from ${formatKes(raise.raised_from)} to ${formatKes(raise.raised_to)}, ${formatDateTime(raise.raised_at)}. It counts from ${formatDateTime(raise.applies_from)}.`;
}
