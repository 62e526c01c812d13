// An order as a row of the export and of the printed list.
import { shownAmount } from '../../../../domain/money.ts';
import { formatPhone } from '../../../../domain/people/phone.ts';
import type { CsvColumn } from '../../list/export/csv.ts';
import { phoneCell } from '../../list/phone-cell.ts';
import { labelOf } from '../../status/label-of.ts';
import { describePaymentOfOrder, sourceLabels } from '../../status/staff-labels.ts';
import { statusLabel } from '../../status/status-badge.tsx';
import { formatForFile } from '../../ui/time/dates.ts';
import type { ListedOrder } from '../order-queries.ts';
import { changeOf } from '../payments/change-of.ts';
import { areaOf, drinksOf } from '../place.ts';
import type { ExportedOrder } from './orders-to-export.ts';

const amountOf = ({ total_amount, payment_status }: ListedOrder | ExportedOrder): number =>
  shownAmount(total_amount, payment_status) / 100;

/** The payments that arrived for the order, the first one first. */
const completedFor = ({ payments }: ExportedOrder) =>
  payments
    .filter(({ status }) => status === 'completed')
    .toSorted((one, other) => (one.completed_at ?? '').localeCompare(other.completed_at ?? ''));
/** No money came with credit. */
const receivedFor = (order: ExportedOrder) => completedFor(order).filter(({ method }) => method !== 'credit');
/** Those that count for it, without duplicates. */
const paymentsOf = (order: ExportedOrder) => completedFor(order).filter(({ needs_refund }) => !needs_refund);
/** What went back of them: in full, or in part outside the shop. */
const refundsOf = (order: ExportedOrder) =>
  completedFor(order)
    .flatMap(({ refunds, change_notes }) => [
      ...refunds
        .filter(({ status, method }) => status === 'completed' && method !== 'credit')
        .map(({ refund_cents, completed_at, refund_receipt }) => ({
          cents: refund_cents,
          at: completed_at,
          receipt: refund_receipt,
        })),
      ...change_notes
        .filter(({ kind }) => kind === 'returned')
        .map(({ amount_cents, noted_at, receipt }) => ({ cents: amount_cents, at: noted_at, receipt })),
    ])
    .toSorted((one, other) => (one.at ?? '').localeCompare(other.at ?? ''));

/** Null where nothing was paid or sent back. */
const sum = (cents: number[]): number | null =>
  cents.length === 0 ? null : cents.reduce((total, one) => total + one, 0) / 100;

export const exportColumns: CsvColumn<ExportedOrder>[] = [
  { title: 'Order #', value: ({ order_number }) => order_number },
  { title: 'Tracking number', value: ({ tracking_number }) => tracking_number },
  { title: 'Customer', value: ({ customer_name }) => customer_name },
  { title: 'Email', value: ({ customer_email }) => customer_email },
  { title: 'Phone', value: ({ customer_phone }) => phoneCell(customer_phone) },
  { title: 'Address', value: ({ shipping_address }) => shipping_address },
  { title: 'City', value: ({ city }) => city },
  { title: 'Area', value: ({ area_name }) => area_name },
  { title: 'Notes', value: ({ delivery_notes }) => delivery_notes },
  { title: 'Came by', value: ({ source }) => labelOf(sourceLabels, source) },
  { title: 'Placed (Nairobi time)', value: ({ created_at }) => formatForFile(created_at) },
  {
    title: 'Items',
    value: ({ order_items }) =>
      order_items.map(({ quantity, product_name }) => `${quantity} x ${product_name}`).join('; '),
  },
  {
    title: 'Unit prices (KES)',
    value: ({ order_items }) =>
      // One price is a number.
      order_items.length === 1
        ? (order_items[0]?.unit_price ?? 0) / 100
        : order_items.map(({ unit_price }) => unit_price / 100).join('; '),
  },
  { title: 'Delivery fee (KES)', value: ({ delivery_fee }) => delivery_fee / 100 },
  { title: 'Discount (KES)', value: ({ discount_cents }) => discount_cents / 100 },
  { title: 'Discount code', value: ({ discount_code }) => discount_code },
  { title: 'Total (KES)', value: amountOf },
  { title: 'Status', value: ({ status }) => statusLabel(status) },
  { title: 'Payment', value: (order) => describePaymentOfOrder(order).text },
  {
    title: 'M-PESA receipt',
    value: (order) =>
      receivedFor(order)
        .flatMap(({ receipt }) => receipt ?? [])
        .join('; '),
  },
  {
    title: 'Paid (Nairobi time)',
    // Paid in parts: when the last part came.
    value: (order) => formatForFile(paymentsOf(order).at(-1)?.completed_at ?? null),
  },
  {
    title: 'Received (KES)',
    value: (order) => sum(receivedFor(order).map(({ charge_cents }) => charge_cents)),
  },
  {
    title: 'Paid from credit (KES)',
    value: (order) =>
      sum(
        paymentsOf(order)
          .filter(({ method, refunded_at }) => method === 'credit' && refunded_at === null)
          .map(({ charge_cents }) => charge_cents),
      ),
  },
  {
    title: 'Owed to the customer (KES)',
    value: (order) =>
      sum(
        completedFor(order)
          .filter(({ refunded_at }) => refunded_at === null)
          .map(({ change_notes }) => changeOf(change_notes).owed)
          .filter((cents) => cents > 0),
      ),
  },
  {
    title: 'Refunded (KES)',
    value: (order) => sum(refundsOf(order).map(({ cents }) => cents)),
  },
  {
    title: 'Refunded (Nairobi time)',
    value: (order) => formatForFile(refundsOf(order).at(-1)?.at ?? null),
  },
  {
    title: 'Receipt of the refund',
    value: (order) =>
      refundsOf(order)
        .flatMap(({ receipt }) => receipt ?? [])
        .join('; '),
  },
  { title: 'Delivery person', value: ({ delivery }) => delivery?.delivery_person ?? null },
];

export const printColumns: CsvColumn<ListedOrder>[] = [
  { title: 'Order #', value: ({ order_number }) => order_number },
  { title: 'Placed', value: ({ created_at }) => formatForFile(created_at) },
  { title: 'Customer', value: ({ customer_name }) => customer_name },
  { title: 'Phone', value: ({ customer_phone }) => formatPhone(customer_phone) },
  { title: 'Area', value: areaOf },
  { title: 'Items', value: ({ order_items }) => drinksOf(order_items) },
  { title: 'Total (KES)', value: amountOf },
  { title: 'Payment', value: (order) => describePaymentOfOrder(order).text },
  { title: 'Status', value: ({ status }) => statusLabel(status) },
];
