// An order in the list (specification §2, Admin Orders), and in the exported file.
import { Link, useSearchParams } from 'react-router';
import { formatKes } from '../../../domain/money.ts';
import { Badge } from '../../ui/badge.tsx';
import { buttonStyle } from '../../ui/button.tsx';
import { formatDate } from '../dates.ts';
import type { CsvColumn } from '../list/csv.ts';
import type { Column } from '../list/row-list.tsx';
import { StatusBadge, statusWords } from '../status-badge.tsx';
import { confirmOrderStatus, orderStatusBlock } from '../status-change.ts';
import { StatusSelect } from '../status-select.tsx';
import { decisionOf, type ListedOrder, orderStatuses } from './order-queries.ts';
import type { useOrderStatus } from './use-order-status.ts';

const unitsOf = ({ order_items }: ListedOrder) =>
  order_items.reduce((sum, { quantity }) => sum + quantity, 0);

export const decisionWords = { 'units are gone': 'Needs a decision', 'refund is due': 'Refund due' };

export function orderColumns(status: ReturnType<typeof useOrderStatus>): Column<ListedOrder>[] {
  return [
    {
      title: 'Order #',
      card: 'heading',
      show: ({ order_number }) => <span className="font-semibold whitespace-nowrap">{order_number}</span>,
    },
    {
      title: 'Customer',
      card: 'alone',
      show: ({ customer_name, customer_email }) => (
        <span className="block max-w-72 wrap-anywhere table:min-w-36">
          {customer_name}
          <span className="block text-ink-soft">{customer_email}</span>
        </span>
      ),
    },
    {
      title: 'Date',
      show: ({ created_at }) => <span className="whitespace-nowrap">{formatDate(created_at)}</span>,
    },
    {
      title: 'Items',
      show: (order) => (
        <span className="whitespace-nowrap">
          {unitsOf(order)} {unitsOf(order) === 1 ? 'item' : 'items'}
        </span>
      ),
    },
    { title: 'Total', isNumber: true, show: ({ total_amount }) => formatKes(total_amount) },
    {
      title: 'Status',
      card: 'corner',
      show: (order) => {
        const decision = decisionOf(order);
        return (
          <span className="flex flex-col items-end gap-1.5 whitespace-nowrap table:items-start">
            <StatusBadge status={order.status} />
            {decision ? <Badge tone="red">{decisionWords[decision]}</Badge> : null}
          </span>
        );
      },
    },
    {
      title: 'Actions',
      card: 'actions',
      show: (order) => (
        <span className="flex items-center gap-2">
          <ViewLink order={order} />
          <StatusSelect
            label={`Status of ${order.order_number}`}
            value={order.status || 'pending'}
            options={orderStatuses}
            saving={status.saving(order)}
            confirmation={(to) => confirmOrderStatus(order, to)}
            block={(to) => orderStatusBlock(order, to)}
            onChoose={(to) => status.set(order, to)}
          />
        </span>
      ),
    },
  ];
}

function ViewLink({ order }: { order: ListedOrder }) {
  const [parameters] = useSearchParams();
  return (
    <Link
      to={{ pathname: `/admin/orders/${order.id}`, search: parameters.toString() }}
      state={{ isFromList: true }}
      preventScrollReset
      aria-haspopup="dialog"
      className={buttonStyle('quiet')}
    >
      View<span className="sr-only"> {order.order_number}</span>
    </Link>
  );
}

export const exportColumns: CsvColumn<ListedOrder>[] = [
  { title: 'Order #', value: ({ order_number }) => order_number },
  { title: 'Tracking number', value: ({ tracking_number }) => tracking_number },
  { title: 'Customer', value: ({ customer_name }) => customer_name },
  { title: 'Email', value: ({ customer_email }) => customer_email },
  { title: 'Phone', value: ({ customer_phone }) => customer_phone },
  { title: 'Address', value: ({ shipping_address }) => shipping_address },
  { title: 'City', value: ({ city }) => city },
  { title: 'Date', value: ({ created_at }) => created_at },
  {
    title: 'Items',
    value: ({ order_items }) =>
      order_items.map(({ quantity, product_name }) => `${quantity} x ${product_name}`).join('; '),
  },
  { title: 'Total (KES)', value: ({ total_amount }) => total_amount / 100 },
  { title: 'Status', value: ({ status }) => statusWords(status) },
  { title: 'Payment', value: ({ payment_status }) => statusWords(payment_status) },
];
