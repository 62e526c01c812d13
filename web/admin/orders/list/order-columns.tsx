// An order in the list (docs/product.md#orders-screen): as a table row and as a compact row.
import { Link, useSearchParams } from 'react-router';
import { dueAt } from '../../../../domain/deliveries/delivery-promise.ts';
import { isWaiting, takesRider, workStep } from '../../../../domain/deliveries/delivery-status.ts';
import { formatKes, shownAmount } from '../../../../domain/money.ts';
import { formatPhone } from '../../../../domain/people/phone.ts';
import { NthOrder } from '../../customers/nth-order.tsx';
import type { Column } from '../../list/row-list.tsx';
import { RowMenu } from '../../list/row-menu.tsx';
import type { RowAction } from '../../list/row-menu-items.tsx';
import { confirmOrderStatus, orderStatusBlock } from '../../status/status-change.ts';
import { loadStatusParts, StatusSelect } from '../../status/status-select.tsx';
import { NextStepButton, type NextSteps } from '../../today/next-step-button.tsx';
import { queuedOf } from '../../today/use-next-step.ts';
import { callTo } from '../../ui/contact-link.tsx';
import { Age } from '../../ui/time/age.tsx';
import { Due } from '../../ui/time/due.tsx';
import { contactActions } from '../contact-actions.ts';
import { Drinks } from '../drinks.tsx';
import { type ListedOrder, orderStatuses } from '../order-queries.ts';
import { PaymentBadge } from '../payments/payment-badge.tsx';
import { areaOf } from '../place.ts';
import type { useOrderStatus } from '../use-order-status.ts';

type OrderStatus = ReturnType<typeof useOrderStatus>;

/** With what its status opens, so that an opened order needs no further code. */
export const loadOrderDialog = () =>
  Promise.all([import('../order-dialog.tsx'), loadStatusParts()]).then(([dialog]) => dialog);
export const prepareOrderDialog = () => void loadOrderDialog().catch(() => {});

const amountOf = ({ total_amount, payment_status }: ListedOrder): string =>
  formatKes(shownAmount(total_amount, payment_status));

/** Below, the customer would have too little space for a phone number. */
export const orderTableWidth = 1104;

interface RowControls {
  status: OrderStatus;
  steps: NextSteps;
}

export function orderColumns({ status, steps }: RowControls): Column<ListedOrder>[] {
  return [
    {
      title: 'Order #',
      width: '5.25rem',
      show: (order) => <ViewLink order={order} className="font-semibold whitespace-nowrap" />,
    },
    {
      title: 'Customer',
      sort: 'customer',
      show: (order) => (
        <>
          <span className="flex items-baseline gap-1.5">
            <span className="truncate font-semibold" title={order.customer_name}>
              {order.customer_name}
            </span>
            <NthOrder nth={order.nth_order} rating={order.rating} />
          </span>
          <span className="flex gap-1.5 text-xs leading-5 text-ink-soft">
            <PhoneLink order={order} className="underline" />
            <span className="truncate" title={order.customer_email}>
              {order.customer_email}
            </span>
          </span>
        </>
      ),
    },
    { title: 'Date', width: '5.5rem', sort: 'date', show: (order) => <OrderAge order={order} /> },
    // Quantity and flavor have the same space in every window: the rest is the customer's, whose email is cut first.
    {
      title: 'Items',
      width: '13rem',
      show: (order) => <Drinks order={order} withUnits />,
    },
    {
      title: 'Area',
      width: '8%',
      show: (order) => (
        <span className="line-clamp-3 leading-5 wrap-anywhere" title={order.shipping_address}>
          {areaOf(order)}
        </span>
      ),
    },
    { title: 'Total', width: '6.5rem', sort: 'total', isNumber: true, show: amountOf },
    { title: 'Payment', width: '6.75rem', show: (order) => <PaymentBadge order={order} /> },
    {
      title: 'Status',
      width: '8.75rem',
      sort: 'status',
      show: (order) => <StatusControl order={order} status={status} />,
    },
    {
      title: 'Actions',
      width: '8.75rem',
      show: (order) => <Actions order={order} steps={steps} />,
    },
  ];
}

/** On phones: four short lines next to the controls; the rest of the row opens the order. */
export function OrderRow({ order, status, steps }: RowControls & { order: ListedOrder }) {
  return (
    <div className="grid grid-cols-[minmax(0,1fr)_8.75rem] items-center gap-x-2 sm:grid-cols-[minmax(0,1fr)_16.5rem] lg:grid-cols-[minmax(0,1fr)_18rem]">
      <div className="grid min-w-0 grid-cols-1 gap-x-3 text-sm leading-5.5 md:grid-cols-[10.5rem_minmax(0,1fr)] md:grid-rows-[auto_1fr]">
        <p className="flex items-center gap-2 whitespace-nowrap">
          <ViewLink order={order} className="font-bold" />
          <OrderAge order={order} />
        </p>
        <p className="flex items-baseline gap-1">
          <bdi className="max-w-3/5 shrink-0 truncate font-semibold">{order.customer_name}</bdi>
          <NthOrder nth={order.nth_order} rating={order.rating} />
          <span className="truncate text-ink-soft">· {areaOf(order)}</span>
        </p>
        <div className="min-w-0">
          <Drinks order={order} />
        </div>
        <p className="flex flex-wrap items-center gap-x-2 self-start whitespace-nowrap tabular-nums md:col-start-1 md:row-start-2">
          <PaymentBadge order={order} />
          {amountOf(order)}
        </p>
      </div>
      <div className="grid sm:flex sm:flex-row-reverse sm:flex-wrap sm:items-center sm:justify-between">
        <Actions order={order} steps={steps} />
        <StatusControl order={order} status={status} />
      </div>
    </div>
  );
}

/** The next step, and everything else behind a menu. */
function Actions({ order, steps }: { order: ListedOrder; steps: NextSteps }) {
  const view = useOrderAddress(order);
  const queued = queuedOf(order);
  const actions = (): RowAction[] => {
    const isOpen = queued !== null && isWaiting(order);
    const step = queued && workStep(order, queued);
    return [
      { label: 'View', ...view },
      ...(isOpen && step === 'preparing'
        ? [{ label: 'Give back', run: () => steps.set(queued, 'prepare') }]
        : []),
      ...(isOpen && step !== 'on_the_way' && takesRider(order)
        ? [
            {
              label: queued.delivery_person
                ? `Another rider than ${queued.delivery_person}`
                : 'Assign a rider',
              run: () => steps.assign(queued.id),
            },
          ]
        : []),
      ...contactActions(order),
      { label: "Customer's tracking page", href: `/track-order/${order.tracking_number}` },
    ];
  };
  return (
    <span className="flex min-w-0 items-center justify-end gap-0.5">
      {queued ? <NextStepButton delivery={queued} steps={steps} /> : null}
      <RowMenu name={order.order_number} actions={actions} />
    </span>
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
  const paidAt = order.delivery?.created_at ?? order.created_at;
  return isWaiting(order) ? <Due at={dueAt(order, paidAt)} paidAt={paidAt} /> : <Age at={order.created_at} />;
}

function PhoneLink({ order, className }: { order: ListedOrder; className: string }) {
  if (order.anonymised_at || !order.customer_phone) return null;
  return (
    <a href={callTo(order.customer_phone)} className={`whitespace-nowrap tabular-nums ${className}`}>
      <span className="sr-only">Call {order.customer_name}: </span>
      {formatPhone(order.customer_phone)}
    </a>
  );
}

function useOrderAddress({ id }: ListedOrder) {
  const [parameters] = useSearchParams();
  return {
    to: { pathname: `/admin/orders/${id}`, search: parameters.toString() },
    state: { isFromList: true },
  };
}

/** The number, which opens the order, as a press anywhere on its row does. */
function ViewLink({ order, className }: { order: ListedOrder; className: string }) {
  return (
    <Link
      {...useOrderAddress(order)}
      data-row-link
      preventScrollReset
      aria-haspopup="dialog"
      onPointerEnter={prepareOrderDialog}
      onFocus={prepareOrderDialog}
      className={`relative inline-block ${className}`}
    >
      <span className="sr-only">View </span>
      <span>{order.order_number}</span>
    </Link>
  );
}
