// An order as a row of the export and of the printed list.
import { shownAmount } from '../../../domain/money.ts';
import { formatPhone } from '../../../domain/phone.ts';
import { formatForFile } from '../dates.ts';
import type { CsvColumn } from '../list/csv.ts';
import { statusLabel } from '../status-badge.tsx';
import type { ExportedOrder, ListedOrder } from './order-queries.ts';
import { describePayment } from './payment-badge.tsx';
import { areaOf, drinksOf } from './place.ts';

const amountOf = ({ total_amount, payment_status }: ListedOrder | ExportedOrder): number =>
  shownAmount(total_amount, payment_status) / 100;

/** The payments that count for the order, without duplicates, the first one first. */
const paymentsOf = ({ payments }: ExportedOrder) =>
  payments
    .filter(({ status, needs_refund }) => status === 'completed' && !needs_refund)
    .toSorted((one, other) => (one.completed_at ?? '').localeCompare(other.completed_at ?? ''));

export const exportColumns: CsvColumn<ExportedOrder>[] = [
  { title: 'Order #', value: ({ order_number }) => order_number },
  { title: 'Tracking number', value: ({ tracking_number }) => tracking_number },
  { title: 'Customer', value: ({ customer_name }) => customer_name },
  { title: 'Email', value: ({ customer_email }) => customer_email },
  { title: 'Phone', value: ({ customer_phone }) => customer_phone },
  { title: 'Address', value: ({ shipping_address }) => shipping_address },
  { title: 'City', value: ({ city }) => city },
  { title: 'Notes', value: ({ delivery_notes }) => delivery_notes },
  { title: 'Placed (Nairobi time)', value: ({ created_at }) => formatForFile(created_at) },
  {
    title: 'Items',
    value: ({ order_items }) =>
      order_items.map(({ quantity, product_name }) => `${quantity} x ${product_name}`).join('; '),
  },
  {
    title: 'Unit prices (KES)',
    value: ({ order_items }) => order_items.map(({ unit_price }) => unit_price / 100).join('; '),
  },
  { title: 'Delivery fee (KES)', value: ({ delivery_fee }) => delivery_fee / 100 },
  { title: 'Total (KES)', value: amountOf },
  { title: 'Status', value: ({ status }) => statusLabel(status) },
  { title: 'Payment', value: (order) => describePayment(order)[0] },
  {
    title: 'M-PESA receipt',
    value: (order) =>
      paymentsOf(order)
        .flatMap(({ receipt }) => receipt ?? [])
        .join('; '),
  },
  {
    title: 'Paid (Nairobi time)',
    // Paid in parts: when the last part came.
    value: (order) => formatForFile(paymentsOf(order).at(-1)?.completed_at ?? null),
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
  { title: 'Payment', value: (order) => describePayment(order)[0] },
  { title: 'Status', value: ({ status }) => statusLabel(status) },
];
