// An order in the list (docs/product.md#orders-screen): as a table row and as a compact row.
import { Link, useSearchParams } from 'react-router';
import { isWaiting } from '../../../../domain/delivery-status.ts';
import { formatKes, shownAmount } from '../../../../domain/money.ts';
import { formatPhone } from '../../../../domain/phone.ts';
import { buttonStyle } from '../../../ui/button.tsx';
import { Icon } from '../../../ui/icons.tsx';
import type { Column } from '../../list/row-list.tsx';
import { confirmOrderStatus, orderStatusBlock } from '../../status/status-change.ts';
import { loadStatusParts, StatusSelect } from '../../status/status-select.tsx';
import { Age } from '../../ui/age.tsx';
import { callTo } from '../../ui/contact-link.tsx';
import { Due } from '../../ui/due.tsx';
import { Drinks } from '../drinks.tsx';
import { type ListedOrder, orderStatuses } from '../order-queries.ts';
import { PaymentBadge } from '../payments/payment-badge.tsx';
import { areaOf } from '../place.ts';
import type { useOrderStatus } from '../use-order-status.ts';

type OrderStatus = ReturnType<typeof useOrderStatus>;

/** With what its status opens, so that an opened order needs no further code. */
export const loadOrderDialog = () =>
  Promise.all([import('../order-dialog.tsx'), loadStatusParts()]).then(([dialog]) => dialog);
const prepareOrderDialog = () => void loadOrderDialog().catch(() => {});

const amountOf = ({ total_amount, payment_status }: ListedOrder): string =>
  formatKes(shownAmount(total_amount, payment_status));

export function orderColumns(status: OrderStatus): Column<ListedOrder>[] {
  return [
    {
      title: 'Order #',
      width: '6rem',
      show: ({ order_number }) => <span className="font-semibold whitespace-nowrap">{order_number}</span>,
    },
    {
      title: 'Customer',
      show: (order) => (
        <>
          <span className="block truncate font-semibold" title={order.customer_name}>
            {order.customer_name}
          </span>
          <span className="flex gap-2 text-xs leading-6 text-ink-soft">
            <PhoneLink order={order} className="underline" />
            <span className="truncate" title={order.customer_email}>
              {order.customer_email}
            </span>
          </span>
        </>
      ),
    },
    { title: 'Date', width: '5.5rem', show: (order) => <OrderAge order={order} /> },
    {
      title: 'Items',
      show: (order) => <Drinks order={order} withUnits />,
    },
    {
      title: 'Area',
      width: '13%',
      show: (order) => (
        <span className="line-clamp-2 leading-5 wrap-anywhere" title={order.shipping_address}>
          {areaOf(order)}
        </span>
      ),
    },
    { title: 'Total', width: '6.75rem', isNumber: true, show: amountOf },
    { title: 'Payment', width: '7.5rem', show: (order) => <PaymentBadge order={order} /> },
    {
      title: 'Status',
      width: '10rem',
      show: (order) => <StatusControl order={order} status={status} />,
    },
    {
      title: 'Actions',
      width: '6rem',
      show: (order) => <ViewLink order={order} className={`${buttonStyle('quiet')} px-4!`} />,
    },
  ];
}

/** On phones: four short lines next to the controls; the rest of the row opens the order. */
export function OrderRow({ order, status }: { order: ListedOrder; status: OrderStatus }) {
  return (
    <div className="grid grid-cols-[minmax(0,1fr)_8.25rem] items-center gap-x-2 sm:grid-cols-[minmax(0,1fr)_17.5rem]">
      <div className="grid min-w-0 grid-cols-1 gap-x-4 text-sm leading-5.5 md:grid-flow-col md:grid-cols-[minmax(0,1fr)_minmax(11.5rem,1fr)] md:grid-rows-2">
        <p className="flex items-center gap-2 whitespace-nowrap">
          <ViewLink order={order} className="font-bold before:absolute before:inset-0" isNumber />
          <OrderAge order={order} />
        </p>
        <p className="flex gap-1">
          <bdi className="max-w-3/5 shrink-0 truncate font-semibold">{order.customer_name}</bdi>
          <span className="truncate text-ink-soft">· {areaOf(order)}</span>
        </p>
        <p className="min-w-0">
          <Drinks order={order} />
        </p>
        <p className="flex items-center gap-2 whitespace-nowrap tabular-nums">
          <PaymentBadge order={order} />
          {amountOf(order)}
        </p>
      </div>
      <div className="relative grid sm:flex sm:flex-row-reverse sm:items-center sm:justify-between">
        <span className="grid sm:w-36">
          <StatusControl order={order} status={status} />
        </span>
        <PhoneLink
          order={order}
          className="inline-flex min-h-11 items-center gap-1.5 rounded-md text-sm text-ink-soft underline"
          icon
        />
      </div>
    </div>
  );
}

function StatusControl({ order, status }: { order: ListedOrder; status: OrderStatus }) {
  return (
    <StatusSelect
      label={`Status of ${order.order_number}`}
      value={order.status}
      options={orderStatuses}
      saving={status.saving(order)}
      confirmation={(to) => confirmOrderStatus(order, to)}
      block={(to) => orderStatusBlock(order, to)}
      onChoose={(to) => status.set(order, to)}
    />
  );
}

function OrderAge({ order }: { order: ListedOrder }) {
  return isWaiting(order) ? (
    <Due paidAt={order.delivery?.created_at ?? order.created_at} />
  ) : (
    <Age at={order.created_at} />
  );
}

function PhoneLink({
  order,
  className,
  icon = false,
}: {
  order: ListedOrder;
  className: string;
  icon?: boolean;
}) {
  if (order.anonymised_at || !order.customer_phone) return null;
  return (
    <a href={callTo(order.customer_phone)} className={`whitespace-nowrap tabular-nums ${className}`}>
      {icon ? <Icon name="phone" className="size-4" /> : null}
      <span className="sr-only">Call {order.customer_name}: </span>
      {formatPhone(order.customer_phone)}
    </a>
  );
}

interface ViewLinkProps {
  order: ListedOrder;
  className: string;
  /** Whether the label is the order's number instead of the word. */
  isNumber?: boolean;
}

function ViewLink({ order, className, isNumber = false }: ViewLinkProps) {
  const [parameters] = useSearchParams();
  return (
    <Link
      to={{ pathname: `/admin/orders/${order.id}`, search: parameters.toString() }}
      state={{ isFromList: true }}
      preventScrollReset
      aria-haspopup="dialog"
      onPointerEnter={prepareOrderDialog}
      onFocus={prepareOrderDialog}
      className={className}
    >
      {isNumber ? <span className="sr-only">View </span> : 'View'}
      <span className={isNumber ? '' : 'sr-only'}>
        {isNumber ? '' : ' '}
        {order.order_number}
      </span>
    </Link>
  );
}
