// Whether staff can pay an order without M-PESA.
import { needsReview } from '../../status/states.ts';
import type { WholeOrder } from '../order-queries.ts';

/** Whether cash can pay the order, or credit all of it, as far as it shows; the database decides. */
export const canBePaidInCash = (order: WholeOrder): boolean =>
  order.payment_status === 'unpaid' &&
  order.status !== 'cancelled' &&
  !needsReview(order) &&
  order.payments.every(({ status }) => status !== 'initiating' && status !== 'processing');
