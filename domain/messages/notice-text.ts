// What a notice to staff says, in the panel and in a push, and where it leads (docs/decisions/notices.md).
import type { DeliveryFailureReason, NoticeKind } from '../../supabase/types.ts';
import { deliveryFailures } from '../deliveries/delivery-failure.ts';
import { formatKes } from '../money.ts';
import { areaOf, drinkAndBrand } from '../orders/order-summary.ts';

/** All kinds, as staff choose among them. */
export const noticeKinds = {
  paid_order: 'New paid orders',
  late_order: 'Orders that become late',
  failed_delivery: 'Failed deliveries',
  cancel_request: 'Requests to cancel',
  order_to_agree: 'Orders to agree on',
  refund_to_approve: 'Refunds to approve',
  inquiry: 'Inquiries',
  low_stock: 'Drinks that run low',
} as const satisfies Record<NoticeKind, string>;

/** `private.notice_facts`: those of an order, a refund, an inquiry or a product. */
export interface NoticeFacts {
  order_number?: string | null;
  /** The customer's, or that of the person who asks. */
  name?: string;
  shipping_address?: string;
  city?: string;
  items?: { quantity: number; product_name: string; brand: string | null }[];
  failure_reason?: DeliveryFailureReason | null;
  refund_cents?: number;
  product_name?: string;
  units?: number;
}

export interface Notice {
  kind: NoticeKind;
  event_key: string;
  order_id: string | null;
  /** Null: it was deleted since. */
  facts: NoticeFacts | null;
}

interface NoticeText {
  title: string;
  text: string;
  /** Path of the screen where it is dealt with. */
  path: string;
}

const titles: Record<NoticeKind, string> = {
  paid_order: 'New paid order',
  late_order: 'Order is late',
  failed_delivery: 'Delivery failed',
  cancel_request: 'A customer asks to cancel',
  order_to_agree: 'Agree on fee and day',
  refund_to_approve: 'A refund waits for your approval',
  inquiry: 'New inquiry',
  low_stock: 'Low on stock',
};

/** @param withNames whether names of people are part of the text: not on a locked phone. Default: false */
export function describeNotice(notice: Notice, { withNames = false } = {}): NoticeText {
  const { kind, event_key, order_id } = notice;
  const facts = notice.facts ?? {};
  const title = titles[kind];
  if (kind === 'inquiry') {
    const text = withNames && facts.name ? `From ${facts.name}` : 'Open it to read and answer';
    return { title, text, path: `/admin/inquiries?view=${event_key}` };
  }
  if (kind === 'refund_to_approve') {
    const amount = facts.refund_cents === undefined ? '' : formatKes(facts.refund_cents);
    return {
      title,
      text: joined(amount, facts.order_number),
      path: '/admin/orders?decide=open',
    };
  }
  if (kind === 'low_stock') {
    const left = facts.units === undefined ? '' : facts.units === 0 ? 'none left' : `${facts.units} left`;
    return { title, text: joined(facts.product_name, left), path: '/admin/products?stock=low&sort=stock' };
  }
  const drinks = (facts.items ?? []).map((item) => {
    const [drink] = drinkAndBrand({ product_name: item.product_name, product: { brand: item.brand } });
    return `${item.quantity} × ${drink}`;
  });
  const area = areaOf({ shipping_address: facts.shipping_address ?? '', city: facts.city ?? '' });
  const reason =
    kind === 'failed_delivery' && facts.failure_reason ? deliveryFailures[facts.failure_reason].label : '';
  return {
    title,
    text: joined(reason, drinks.join(', '), area, facts.order_number, withNames ? facts.name : ''),
    path: `/admin/today/${order_id}`,
  };
}

const joined = (...parts: (string | null | undefined)[]): string => parts.filter(Boolean).join(' · ');
