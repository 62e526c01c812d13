// Texts of an order's timeline: what happened, and who did it.
import { chargeCents, formatKes } from '../../../../domain/money.ts';
import { describePaymentFailure } from '../../../../domain/mpesa/payment-result.ts';
import { adviseOnRefund } from '../../../../domain/mpesa/result-advice.ts';
import { formatPhone } from '../../../../domain/people/phone.ts';
import type {
  ChangeNoteKind,
  ChangeNoteWay,
  Database,
  DeliveryFailureReason,
  OrderEventActor,
  OrderPaymentStatus,
  OrderSource,
  PaymentMethod,
  RefundMethod,
} from '../../../../supabase/types.ts';
import { entryOf, labelOf } from '../../status/label-of.ts';
import { labelOfFailure, sourceInSentence } from '../../status/staff-labels.ts';
import { type StaffStatus, statusLabel } from '../../status/status-badge.tsx';
import { formatDay } from '../../ui/time/dates.ts';
import { describeReview } from '../payments/describe-review.ts';

export type OrderEvent = Database['public']['Tables']['order_events']['Row'];

export interface EventText {
  what: string;
  more?: string;
  tone: 'good' | 'bad' | 'plain';
}

interface Details {
  from?: StaffStatus;
  to?: StaffStatus;
  reason?: string;
  total_amount?: number;
  source?: OrderSource;
  from_cents?: number;
  to_cents?: number;
  holds_no_units?: boolean;
  received_cents?: number;
  charge_cents?: number;
  refund_cents?: number;
  phone?: string;
  receipt?: string;
  result_code?: string;
  result_description?: string;
  needs_refund?: boolean;
  method?: PaymentMethod | RefundMethod;
  person?: string;
  vehicle?: string;
  instead_of?: string;
  needs_approval?: boolean;
  although_unpaid?: boolean;
  charge_cents_before?: number;
  receipt_before?: string;
  note?: string;
  failure?: DeliveryFailureReason;
  change?: ChangeNoteKind;
  way?: ChangeNoteWay;
  is_part_refund?: boolean;
  order_number?: string;
  fee_cents?: number;
  total_cents?: number;
  day?: string;
}

const changeTexts: Record<ChangeNoteKind, string> = {
  credit: 'Credit owed to the customer',
  to_return: 'Change to send back',
  returned: 'What was owed went back',
  used: 'Its credit paid another order',
  use_taken_back: 'Its credit is owed again',
  not_owed: 'Less of it is owed to the customer',
};

const reasons: Record<string, string> = {
  paid: 'Because it was paid',
  not_paid_in_time: 'Not paid in time',
  refunded: 'Because its money was sent back',
  by_customer: 'The customer asked for it',
  delivery: 'Along with its delivery',
  undone: 'Undone',
};

type PaymentStatusText = [what: string, tone: EventText['tone']];
const paymentStatusTexts: Record<OrderPaymentStatus, PaymentStatusText> = {
  paid: ['The order is paid', 'good'],
  needs_review: ['Paid, but late or in another amount: needs review', 'bad'],
  refunded: ['The money was sent back', 'plain'],
  unpaid: ['The order is unpaid', 'plain'],
};

const between = (...parts: (string | undefined | false)[]): string => parts.filter(Boolean).join(' · ');

export function describeEvent({
  kind,
  details,
  actor_email = null,
}: Pick<OrderEvent, 'kind' | 'details'> & Partial<Pick<OrderEvent, 'actor_email'>>): EventText {
  const facts = (details ?? {}) as Details;
  const { from, to = 'pending', reason, phone } = facts;
  const cents = facts.charge_cents ?? facts.refund_cents;
  const money = cents === undefined ? undefined : formatKes(cents);
  const payer = phone && formatPhone(phone);
  switch (kind) {
    case 'order_placed':
      return {
        what: facts.source
          ? `Entered by ${actor_email ?? 'staff'} · ${sourceInSentence(facts.source)}`
          : 'Order placed',
        tone: 'plain',
        more: between(
          facts.total_amount !== undefined && formatKes(chargeCents(facts.total_amount)),
          facts.holds_no_units && 'Holds no units before its M-PESA prompt',
        ),
      };
    case 'pay_link_shown':
      return { what: 'Pay link shown to staff', tone: 'plain' };
    case 'delivery_agreed':
      return {
        what: 'Delivery agreed',
        tone: 'plain',
        more: between(
          facts.day !== undefined && formatDay(facts.day),
          facts.fee_cents !== undefined && `fee ${formatKes(facts.fee_cents)}`,
          facts.total_cents !== undefined && `${formatKes(chargeCents(facts.total_cents))} in all`,
        ),
      };
    case 'items_changed':
      return {
        what: 'The customer changed the drinks',
        tone: 'plain',
        more: between(
          facts.from_cents !== undefined &&
            facts.to_cents !== undefined &&
            `${formatKes(chargeCents(facts.from_cents))} → ${formatKes(chargeCents(facts.to_cents))}`,
        ),
      };
    case 'status_changed': {
      const reasonText = between(
        from && `From ${statusLabel(from)}`,
        reason && labelOf(reasons, reason),
        facts.although_unpaid && 'Although unpaid',
      );
      return {
        what: `Status set to ${statusLabel(to)}`,
        tone: to === 'cancelled' ? 'bad' : to === 'delivered' ? 'good' : 'plain',
        ...(reasonText ? { more: reasonText } : {}),
      };
    }
    case 'payment_status_changed': {
      const [what, tone] = entryOf<StaffStatus, PaymentStatusText>(paymentStatusTexts, to, (words) => [
        words,
        'plain',
      ]);
      return { what, tone };
    }
    case 'units_returned':
      return { what: 'Its units went back into stock', tone: 'plain' };
    case 'units_taken':
      return { what: 'Its units were taken out of stock', tone: 'plain' };
    case 'cancel_requested':
      return { what: 'The customer asked to cancel', tone: 'bad' };
    case 'cancel_withdrawn':
      return { what: 'The customer keeps the order', tone: 'plain' };
    case 'cancel_declined':
      return {
        what: 'Not cancelled, although the customer asked for it',
        more: facts.note ? `“${facts.note}”` : '',
        tone: 'plain',
      };
    case 'cash_agreed':
      return { what: 'Cash at the door agreed', more: money ?? '', tone: 'plain' };
    case 'cash_collected':
      return {
        what: 'Cash collected by the rider',
        more: between(
          facts.received_cents !== undefined && formatKes(facts.received_cents),
          facts.charge_cents !== facts.received_cents && `it costs ${money}`,
          facts.person,
        ),
        tone: facts.charge_cents === facts.received_cents ? 'plain' : 'bad',
      };
    case 'code_locked':
      return { what: 'Five wrong codes at the door', more: facts.person ?? '', tone: 'bad' };
    case 'code_waived':
      return { what: 'Finished without the code', more: facts.note ? `“${facts.note}”` : '', tone: 'plain' };
    case 'change_noted':
      return {
        what: facts.is_part_refund
          ? 'Part of the price went back'
          : entryOf<ChangeNoteKind, string>(changeTexts, facts.change ?? 'credit', (words) => words),
        more: between(
          money,
          facts.way === 'cash' && 'In cash',
          facts.receipt && `Receipt ${facts.receipt}`,
          facts.order_number,
          facts.note && `“${facts.note}”`,
        ),
        tone: 'plain',
      };
    case 'payment_prompted':
      return { what: 'Payment prompt sent', more: between(money, payer), tone: 'plain' };
    case 'payment_completed':
      return {
        what: facts.needs_refund ? 'Paid twice: refund the second payment' : 'Payment received',
        more: between(
          money,
          facts.method === 'till'
            ? 'By till'
            : facts.method === 'cash'
              ? 'In cash'
              : facts.method === 'credit'
                ? 'From credit'
                : payer,
          facts.method === 'cash' && facts.person && `From ${facts.person}`,
          facts.receipt && `Receipt ${facts.receipt}`,
          facts.note && `“${facts.note}”`,
        ),
        tone: facts.needs_refund ? 'bad' : 'good',
      };
    case 'payment_corrected':
      return {
        what: 'Payment corrected',
        more: between(
          money,
          facts.receipt && `Receipt ${facts.receipt}`,
          facts.charge_cents_before !== undefined &&
            `Before: ${formatKes(facts.charge_cents_before)}, ${facts.receipt_before ?? ''}`,
        ),
        tone: 'plain',
      };
    case 'payment_taken_back':
      return {
        what:
          facts.method === 'cash'
            ? 'Cash taken back: noted by mistake'
            : facts.method === 'credit'
              ? 'Credit taken back: used by mistake'
              : 'Payment taken back: it was not for this order',
        more: between(money, facts.receipt && `Receipt ${facts.receipt}`, facts.note && `“${facts.note}”`),
        tone: 'bad',
      };
    case 'payment_receipt_known':
      return { what: 'Receipt arrived', more: facts.receipt ?? '', tone: 'plain' };
    case 'payment_failed':
      // M-PESA reported a success with another amount, and staff have resolved that money.
      if (facts.result_code === '0') {
        return {
          what: 'Payment was reviewed',
          more: describeReview(facts.result_description),
          tone: 'plain',
        };
      }
      return {
        what: 'Payment failed',
        more: between(
          plainFailure(facts.result_code),
          facts.result_code && `Code ${facts.result_code}`,
          payer,
        ),
        tone: 'bad',
      };
    case 'payment_in_review':
      return { what: 'Payment needs review', more: describeReview(facts.result_description), tone: 'bad' };
    case 'payment_unresolved':
      return {
        what: 'M-PESA never reported how the payment ended',
        more: between(money, payer),
        tone: 'bad',
      };
    case 'refund_requested':
      return {
        what: facts.needs_approval ? 'Refund requested: a colleague must approve it' : 'Refund requested',
        more: between(money, reason && `“${reason}”`),
        tone: facts.needs_approval ? 'bad' : 'plain',
      };
    case 'refund_approved':
      return { what: 'Refund approved', more: money ?? '', tone: 'plain' };
    case 'refund_withdrawn':
      return { what: 'Refund withdrawn', more: money ?? '', tone: 'plain' };
    case 'refund_sent':
      return { what: 'Refund sent to M-PESA', more: money ?? '', tone: 'plain' };
    case 'refund_unknown':
      return { what: 'M-PESA has not confirmed whether the money went back', more: money ?? '', tone: 'bad' };
    case 'refund_failed': {
      const { what } = adviseOnRefund(facts.result_code, facts.result_description);
      return {
        what: 'The money was not sent back',
        more: between(money, what, facts.result_code && `Code ${facts.result_code}`),
        tone: 'bad',
      };
    }
    case 'refund_completed':
      return {
        what:
          facts.method === 'by_hand'
            ? 'Sent back by hand'
            : facts.method === 'cash'
              ? 'Given back in cash'
              : facts.method === 'credit'
                ? 'Credit of the customer again'
                : 'Sent back by M-PESA',
        more: between(money, facts.receipt && `Receipt ${facts.receipt}`),
        tone: 'good',
      };
    case 'refund_sent_twice':
      return {
        what: 'M-PESA sent the money back a second time',
        more: between(money, facts.receipt && `Receipt ${facts.receipt}`),
        tone: 'bad',
      };
    case 'refund_sent_twice_seen':
      return {
        what: 'The double refund is resolved',
        more: between(money, facts.reason && `“${facts.reason}”`),
        tone: 'plain',
      };
    case 'delivery_made':
      return { what: 'Ready to be assigned for delivery', tone: 'plain' };
    case 'delivery_taken':
      return {
        what: facts.person ? `${facts.person} prepares it` : 'Nobody prepares it any more',
        more: between(
          reason && labelOf(reasons, reason),
          facts.instead_of && `Instead of ${facts.instead_of}`,
        ),
        tone: 'plain',
      };
    case 'delivery_ready':
      return { what: 'Packed', more: between(reason && labelOf(reasons, reason)), tone: 'plain' };
    case 'delivery_unpacked':
      return {
        what: 'Not packed any more',
        more: between(reason && labelOf(reasons, reason)),
        tone: 'plain',
      };
    case 'delivery_assigned':
      return {
        what: `Delivery assigned to ${facts.person ?? 'a rider'}`,
        more: between(payer, facts.vehicle, facts.instead_of && `Instead of ${facts.instead_of}`),
        tone: 'plain',
      };
    case 'delivery_status_changed':
      return {
        what: `Delivery is ${statusLabel(to)}`,
        tone: to === 'failed' ? 'bad' : to === 'delivered' ? 'good' : 'plain',
        ...(from
          ? {
              more: between(
                `From ${statusLabel(from)}`,
                facts.failure && labelOfFailure(facts.failure),
                reason && labelOf(reasons, reason),
              ),
            }
          : {}),
      };
    default:
      // A later version added it, and this tab still runs this one.
      return { what: statusLabel(kind), tone: 'plain' };
  }
}

/** Why a payment failed, without the emoji that customers see. */
export const plainFailure = (code: string | null | undefined): string =>
  describePaymentFailure(code).replace(/\s*\p{Extended_Pictographic}\uFE0F?$/u, '');

const actors: Record<OrderEventActor, string> = {
  staff: 'Staff',
  customer: 'Customer',
  mpesa: 'M-PESA',
  shop: 'The shop itself',
  rider: 'Rider',
};

export const describeActor = ({ actor, actor_email }: Pick<OrderEvent, 'actor' | 'actor_email'>): string =>
  (actor === 'staff' && actor_email) || labelOf(actors, actor);
