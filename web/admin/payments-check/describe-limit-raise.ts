// The last increase of the refund limit, in one sentence.
import { formatKes } from '../../../domain/money.ts';
import { knownNameOf, type NameOf } from '../ui/known-names.ts';
import { formatDateTime } from '../ui/time/dates.ts';
import type { PaymentHealth } from './payment-health.ts';

/** Who raised it, when, by how much, and when it takes effect. */
export function describeLimitRaise(
  raise: NonNullable<PaymentHealth['limit_raise']>,
  nameOf: NameOf = knownNameOf,
): string {
  const who = raise.raised_by_email ? nameOf(raise.raised_by_email) : 'Someone';
  return `${who} raised the refund limit from ${formatKes(raise.raised_from)} to ${formatKes(raise.raised_to)}, ${formatDateTime(raise.raised_at)}. It applies from ${formatDateTime(raise.applies_from)}.`;
}
