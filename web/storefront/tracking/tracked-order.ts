// An order as its tracking number tells it: the call, what can be read from its answer, and how news of it are taken in.
import type { Store } from '../../lib/store.ts';

export interface TrackedItem {
  id: string;
  quantity: number;
  /** Cents. */
  unitPrice: number;
  name: string;
  imageUrl: string | null;
  category: string | null;
  /** Of the product's page; null when it is not sold any more. */
  slug: string | null;
}

/** Of an unpaid order: staff look at a payment, or send it back, or nobody knows how the last one ended. */
export type PaymentCheck = 'review' | 'goes_back' | 'unresolved';

const isPaymentCheck = (value: unknown): value is PaymentCheck =>
  value === 'review' || value === 'goes_back' || value === 'unresolved';

export interface TrackedOrder {
  id: string;
  trackingNumber: string;
  status: string;
  paymentStatus: string;
  /** Cents. */
  deliveryFee: number;
  total: number;
  /** Cents that came under its number, are less than its charge and wait for staff; told to the customer alone. */
  partPaid?: number;
  paymentCheck: PaymentCheck | null;
  createdAt: string;
  updatedAt: string;
  /** True when name and phone are told in part only, and the address not at all. */
  isMasked: boolean;
  customerName: string;
  customerPhone: string;
  address: string | null;
  deliveryNotes: string | null;
  items: TrackedItem[];
}

export type LookUp =
  | { kind: 'found'; order: TrackedOrder }
  | { kind: 'missing' }
  | { kind: 'failed'; message: string };

const fallback = 'Failed to fetch order details';
export const failedToFetch = { kind: 'failed', message: fallback } as const satisfies LookUp;

/** What a failed look-up tells: without a code, or with one of these, a connection failed, in words no shopper should read. */
export const saidToShoppers = ({ code, message }: { code: string; message: string }): string =>
  (code && !code.startsWith('PGRST00') && message) || fallback;

/**
 * Looks an order up (specification §7, Storefront 7 and 8); it does not throw.
 * @param proof what shows the personal data in full: the order's access key, or the last four digits of its phone
 */
export async function lookUpOrder(
  tables: Store['tables'],
  trackingNumber: string,
  proof: { accessKey?: string | null; phoneLastFour?: string | null } = {},
): Promise<LookUp> {
  const { data, error } = await tables.rpc('track_order', {
    tracking_number: trackingNumber,
    access_key: proof.accessKey ?? null,
    phone_last_four: proof.phoneLastFour ?? null,
  });
  if (error) return { kind: 'failed', message: saidToShoppers(error) };
  if (data === null) return { kind: 'missing' };
  const order = readTrackedOrder(data);
  return order ? { kind: 'found', order } : failedToFetch;
}

/** @returns null for an answer that is no order */
export function readTrackedOrder(answer: unknown): TrackedOrder | null {
  if (!isRecord(answer)) return null;
  const [id, trackingNumber, status] = [answer.id, answer.tracking_number, answer.status];
  const [createdAt, total] = [answer.created_at, answer.total_amount];
  if (
    typeof id !== 'string' ||
    typeof trackingNumber !== 'string' ||
    typeof status !== 'string' ||
    typeof createdAt !== 'string' ||
    typeof total !== 'number'
  ) {
    return null;
  }
  return {
    id,
    trackingNumber,
    status,
    total,
    createdAt,
    paymentStatus: text(answer.payment_status) ?? 'unpaid',
    ...(typeof answer.part_paid === 'number' ? { partPaid: answer.part_paid } : {}),
    paymentCheck: isPaymentCheck(answer.payment_check) ? answer.payment_check : null,
    deliveryFee: typeof answer.delivery_fee === 'number' ? answer.delivery_fee : 0,
    updatedAt: text(answer.updated_at) ?? createdAt,
    isMasked: answer.is_masked !== false,
    customerName: text(answer.customer_name) ?? '',
    customerPhone: text(answer.customer_phone) ?? '',
    address: text(answer.shipping_address),
    deliveryNotes: text(answer.delivery_notes),
    items: Array.isArray(answer.order_items) ? answer.order_items.flatMap(readItem) : [],
  };
}

function readItem(item: unknown): TrackedItem[] {
  if (!isRecord(item) || typeof item.quantity !== 'number' || typeof item.unit_price !== 'number') return [];
  const product = isRecord(item.product) ? item.product : {};
  return [
    {
      id: String(item.id),
      quantity: item.quantity,
      unitPrice: item.unit_price,
      name: text(product.name) ?? 'Product',
      imageUrl: text(product.image_url),
      category: text(product.category),
      slug: text(product.slug),
    },
  ];
}

/** What changed, told without personal data (see web/lib/live.ts). */
export interface OrderNews {
  status: string;
  payment_status: string;
  updated_at: string;
}

/** The shown order with news of it taken in. News that are older than what is shown change nothing. */
export function withNews(shown: TrackedOrder, news: OrderNews): TrackedOrder {
  if (Date.parse(news.updated_at) < Date.parse(shown.updatedAt)) return shown;
  return {
    ...shown,
    status: news.status,
    paymentStatus: news.payment_status,
    updatedAt: news.updated_at,
  };
}

/** The shown order after it was looked up again. What was once shown in full does not hide again. */
export function withLookUp(shown: TrackedOrder, found: TrackedOrder): TrackedOrder {
  if (found.id !== shown.id) return found;
  if (found.isMasked && !shown.isMasked) {
    const news = {
      status: found.status,
      payment_status: found.paymentStatus,
      updated_at: found.updatedAt,
    };
    return { ...withNews(shown, news), paymentCheck: found.paymentCheck };
  }
  return Date.parse(found.updatedAt) < Date.parse(shown.updatedAt)
    ? { ...found, status: shown.status, paymentStatus: shown.paymentStatus, updatedAt: shown.updatedAt }
    : found;
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const text = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null);
