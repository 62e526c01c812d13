// What staff must know on every screen, each with the screen where it is dealt with.
import { adviseOnResult } from '../../../domain/mpesa/result-advice.ts';
import type { PaymentHealth } from '../payments-check/payment-health.ts';
import { formatDateTime } from '../ui/time/dates.ts';

export interface StaffNotice {
  key: string;
  tone: 'danger' | 'info';
  title: string;
  text: string;
  /** The screen where it is dealt with; the notice is not repeated there. */
  to: string;
  link: string;
}

/**
 * Lists the notices, the most urgent first.
 * @param health null while it is unknown
 */
export function describeNotices(health: PaymentHealth | null): StaffNotice[] {
  const notices: StaffNotice[] = [];
  if (health?.pause) {
    const { code, description, is_refused, since } = health.pause;
    const { what, advice } = adviseOnResult(code, description, is_refused ? 'request' : 'result');
    notices.push({
      key: 'prompts',
      tone: 'danger',
      title: `Customers get no M-PESA prompts since ${formatDateTime(since)}`,
      text: `${what} ${advice}`,
      to: '/admin/settings/payments',
      link: 'Open the M-PESA check',
    });
  }
  return notices;
}
