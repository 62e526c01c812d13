import type { PaymentHealth } from '../admin/payments-check/payment-health.ts';

/** Nothing needs attention. */
export const health: PaymentHealth = {
  checked_at: '2026-11-21T10:00:00Z',
  pause: null,
  refunds_to_approve: 0,
  refunds_to_approve_by_me: 0,
  refunds_unknown: 0,
  refunds_stuck: 0,
  refunds_sent_twice: 0,
  limit_raise: null,
  token_fresh_until: null,
  last_push: null,
  last_callback: null,
};
