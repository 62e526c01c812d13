// What the page of a rider receives, and what it says after a press (docs/decisions/riders.md).
import type { DeliveryFailureReason } from '../../supabase/types.ts';
import { formatKsh } from '../money.ts';
import { deliveryFailures } from './delivery-failure.ts';

export type RiderStep = 'picked_up' | 'in_transit' | 'delivered' | 'failed';
/** The steps that a delivery takes on the page; assigned is where it begins. */
export type JobStatus = 'assigned' | RiderStep;

/** A delivery that the rider has. Money in cents. */
export interface OpenJob {
  id: string;
  order_number: string;
  status: 'assigned' | 'picked_up' | 'in_transit';
  items: { name: string; quantity: number }[] | null;
  first_name: string;
  name: string;
  phone: string;
  address: string;
  city: string;
  /** That the customer chose. */
  area: string | null;
  /** Latitude and longitude of the customer's device. */
  map_point: string | null;
  /** When the customer expects it. */
  promised_at: string | null;
  customer_notes: string | null;
  /** Of staff, for this delivery. */
  notes: string | null;
  /** To be collected; null for a paid order. */
  cash_cents: number | null;
  asks_code: boolean;
  /** Codes that may still be typed. */
  tries_left: number;
}

/** A delivery that is done: nothing that identifies the customer but the first name. */
export interface DoneJob extends Pick<OpenJob, 'id' | 'order_number' | 'items' | 'first_name'> {
  status: 'delivered' | 'failed';
  done_at: string;
  failure: DeliveryFailureReason | null;
  is_cancelled: boolean;
}

export type Job = OpenJob | DoneJob;

export interface Press {
  delivery_id: string;
  step?: RiderStep;
  outcome:
    | 'done'
    | 'already'
    | 'not_yours'
    | 'cancelled'
    | 'asked_to_cancel'
    | 'wrong_code'
    | 'code_locked'
    | 'code_missing'
    | 'cash_missing'
    | 'cash_differs'
    | 'reason_missing';
  order_number?: string;
  status?: JobStatus;
  failure?: DeliveryFailureReason | null;
  tries_left?: number;
  cash_cents?: number;
  received_cents?: number;
}

/** The answer of `rider_page` and `rider_press`. */
export interface Ride {
  link_id: string;
  rider_id: string;
  expires_at: string;
  now: string;
  name: string;
  shop: { name: string; phone: string; chat_phone: string };
  jobs: Job[];
  press?: Press;
}

const hasEnded = (status: JobStatus | undefined) => status === 'delivered' || status === 'failed';

export const isOpenJob = (job: Job): job is OpenJob => job.status !== 'delivered' && job.status !== 'failed';

/** Where each step is offered; a delivery can be delivered without the steps before it. */
export const offeredSteps: Record<OpenJob['status'], readonly RiderStep[]> = {
  assigned: ['picked_up'],
  picked_up: ['in_transit', 'delivered', 'failed'],
  in_transit: ['delivered', 'failed'],
};

export const stepLabels: Record<JobStatus, string> = {
  assigned: 'To pick up',
  picked_up: 'Picked up',
  in_transit: 'On the way',
  delivered: 'Delivered',
  failed: 'Could not deliver',
};

/** A delivery that ended without a press on this page. */
export const describeEnd = (job: Pick<DoneJob, 'order_number' | 'status' | 'is_cancelled'>): string =>
  job.is_cancelled
    ? `${job.order_number} was cancelled. If you have it, bring it back to the shop.`
    : `${job.order_number} is set to “${stepLabels[job.status]}” now.`;

/** The sentence after a press, and whether it did what was wanted. */
export function describePress(press: Press): { isDone: boolean; text: string } {
  const order = press.order_number ?? 'This order';
  const status = press.status ?? 'assigned';
  switch (press.outcome) {
    case 'done': {
      const text = `${order}: ${stepLabels[status]}.`;
      return press.received_cents === undefined
        ? { isDone: true, text }
        : {
            isDone: false,
            text: `${text} It was paid by M-PESA before: give ${formatKsh(press.received_cents)} back, or call the shop.`,
          };
    }
    case 'already': {
      const why = press.failure ? ` (${deliveryFailures[press.failure].label})` : '';
      const text = `${order} was set to “${stepLabels[status]}”${why} before. Nothing was changed.`;
      // The other end of the delivery: one of the two is wrong.
      return hasEnded(status) && hasEnded(press.step) && press.step !== status
        ? { isDone: false, text: `${text} Call the shop if that is wrong.` }
        : { isDone: true, text };
    }
    case 'not_yours':
      return { isDone: false, text: 'This order is not on your list any more. Please call the shop.' };
    case 'cancelled':
      return {
        isDone: false,
        text: describeEnd({ order_number: order, status: 'failed', is_cancelled: true }),
      };
    case 'asked_to_cancel':
      return { isDone: false, text: `The customer asked to cancel ${order}. Please call the shop first.` };
    case 'wrong_code': {
      const left = press.tries_left ?? 0;
      return {
        isDone: false,
        text: `${order}: wrong code. Ask the customer again: ${left} ${left === 1 ? 'try' : 'tries'} left.`,
      };
    }
    case 'code_locked':
      return { isDone: false, text: `${order}: five wrong codes. Call the shop, which finishes this order.` };
    case 'code_missing':
      return { isDone: false, text: `${order}: type the customer's four digits.` };
    case 'cash_missing':
      return { isDone: false, text: `${order}: type the cash that you got, in whole shillings.` };
    case 'cash_differs':
      return {
        isDone: false,
        text: `${order} costs ${formatKsh(press.cash_cents ?? 0)}, and you typed ${formatKsh(press.received_cents ?? 0)}. If that is right, tick “Another amount” and press again.`,
      };
    case 'reason_missing':
      return { isDone: false, text: `${order}: choose why it could not be delivered.` };
  }
}

/** Shillings as a rider types them, in cents; null if they cannot be read. */
export function readShillings(typed: string): number | null {
  const digits = typed
    .replace(/^\s*(?:ksh|kes)\.?/i, '')
    .replace(/(?:\.0{0,2})?\s*(?:\/[-=])?\s*$/, '')
    .replaceAll(/[\s,]/g, '');
  return /^\d{1,7}$/.test(digits) ? Number(digits) * 100 : null;
}

/** The URL of a rider's page. */
export const ridePath = (secret: string): string => `/ride/${secret}`;
