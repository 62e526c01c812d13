// Printouts of an order: a packing slip for the bag and the rider, and a receipt for an 80 mm printer.
import type { ReactNode } from 'react';
import { useRouteLoaderData } from 'react-router';
import { formatKes, shownAmount } from '../../../domain/money.ts';
import { formatPhone } from '../../../domain/people/phone.ts';
import type { PaymentMethod } from '../../../supabase/types.ts';
import { AssignedRider } from '../deliveries/assigned-rider.tsx';
import type { WholeOrder } from '../orders/order-queries.ts';
import { changeOf } from '../orders/payments/change-of.ts';
import { moneyOf } from '../orders/refunds/refund-queries.ts';
import { formatDateTime, formatDay } from '../ui/time/dates.ts';
import { describeMissingPayment, describeMoneyToCollect, describeTrouble } from './money-to-collect.ts';
import { PrintSheet } from './print-sheet.tsx';

export type Paper = 'slip' | 'receipt';

interface OrderPapersProps {
  /** Each on a page of its own. */
  orders: readonly WholeOrder[];
  paper: Paper;
  onPrinted(): void;
}

export default function OrderPapers({ orders, paper, onPrinted }: OrderPapersProps) {
  const Printout = paper === 'receipt' ? Receipt : PackingSlip;
  return (
    <PrintSheet paper={paper === 'receipt' ? 'roll' : 'page'} onPrinted={onPrinted}>
      {orders.map((order) => (
        <div key={order.id} className="break-after-page last:break-after-auto">
          <Printout order={order} />
        </div>
      ))}
    </PrintSheet>
  );
}

function useShop(): { name: string; phone: string } {
  const facts = useRouteLoaderData<{ settings: { store_name: string; support_phone: string } }>('root');
  return { name: facts?.settings.store_name ?? 'Jani Juice', phone: facts?.settings.support_phone ?? '' };
}

function PackingSlip({ order }: { order: WholeOrder }) {
  const shop = useShop();
  const { delivery } = order;
  return (
    <article className="grid gap-4">
      <header className="flex items-start justify-between gap-6 border-b-2 border-black pb-3">
        <div>
          <p className="text-lg font-bold">{shop.name}</p>
          <h1 className="text-2xl">Packing slip</h1>
        </div>
        <div className="text-right">
          <p className="text-2xl font-bold tabular-nums">{order.order_number}</p>
          <p className="tabular-nums">{order.tracking_number}</p>
          <p>{formatDateTime(order.created_at)}</p>
        </div>
      </header>
      <p className="border-2 border-black px-3 py-2 text-lg font-bold">{describeMoneyToCollect(order)}</p>
      <dl className="grid grid-cols-[auto_1fr] gap-x-6 gap-y-1">
        <Fact term="For">
          {order.anonymised_at ? (
            'Removed'
          ) : (
            <>
              <bdi>{order.customer_name}</bdi>, {formatPhone(order.customer_phone)}
            </>
          )}
        </Fact>
        <Fact term="To">{[order.shipping_address, order.city].filter(Boolean).join(', ')}</Fact>
        {order.area_name ? <Fact term="Area">{order.area_name}</Fact> : null}
        {order.delivery_notes ? <Fact term="Customer's notes">{order.delivery_notes}</Fact> : null}
        <Promised order={order} />
        {delivery?.delivery_person ? (
          <Fact term="By">
            <AssignedRider delivery={delivery} />
          </Fact>
        ) : null}
        {delivery?.delivery_notes ? <Fact term="Instructions">{delivery.delivery_notes}</Fact> : null}
      </dl>
      <table className="w-full text-left">
        <thead>
          <tr className="border-b border-black">
            <th className="w-24 py-1">Quantity</th>
            <th className="py-1">Drink</th>
            <th className="w-20 py-1">Packed</th>
          </tr>
        </thead>
        <tbody>
          {order.order_items.map(({ id, quantity, product_name }) => (
            <tr key={id} className="border-b border-black/40">
              <td className="py-2 text-xl font-bold tabular-nums">{quantity} ×</td>
              <td className="min-w-0 py-2 wrap-anywhere">{product_name || 'Product'}</td>
              <td className="py-2">
                <span className="block size-5 border-2 border-black" />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <p>
        Received in good order: <span className="inline-block w-64 border-b border-black">&nbsp;</span>
      </p>
    </article>
  );
}

/** A slip may be read on another day: with the date. Nothing where no time is promised. */
function Promised({
  order: { promised_at, promised_again_at, delivery_day, is_collected },
}: {
  order: WholeOrder;
}) {
  const due = promised_again_at ?? promised_at;
  if (is_collected) return null;
  if (delivery_day) return <Fact term="Arrives on">{formatDay(delivery_day)}</Fact>;
  return due ? <Fact term="Arrives by">{formatDateTime(due)}</Fact> : null;
}

function Receipt({ order }: { order: WholeOrder }) {
  const shop = useShop();
  const { own: paid } = moneyOf(order);
  const trouble = describeTrouble(order);
  const total = shownAmount(order.total_amount, order.payment_status);
  return (
    <article className="grid gap-2">
      <header className="text-center">
        <p className="text-lg font-bold">{shop.name}</p>
        <p>{formatPhone(shop.phone)}</p>
        <h1 className="mt-1 text-lg">Receipt</h1>
        <p className="font-bold tabular-nums">{order.order_number}</p>
        <p className="tabular-nums">{order.tracking_number}</p>
        <p>{formatDateTime(order.created_at)}</p>
      </header>
      <Rule />
      {order.order_items.map(({ id, quantity, product_name, unit_price }) => (
        <div key={id}>
          <p className="wrap-anywhere">{product_name || 'Product'}</p>
          <Line name={`${quantity} × ${formatKes(unit_price)}`}>{formatKes(quantity * unit_price)}</Line>
        </div>
      ))}
      <Rule />
      {order.discount_cents > 0 ? (
        <Line name={`Discount (${order.discount_code})`}>−{formatKes(order.discount_cents)}</Line>
      ) : null}
      <Line name="Delivery fee">{order.delivery_fee === 0 ? 'free' : formatKes(order.delivery_fee)}</Line>
      {total === order.total_amount ? null : (
        <Line name="Rounded up to whole shillings">{formatKes(total - order.total_amount)}</Line>
      )}
      <p className="flex justify-between text-lg font-bold tabular-nums">
        <span>Total</span>
        <span>{formatKes(total)}</span>
      </p>
      <Rule />
      {paid.length === 0 ? (
        <p className="font-bold">{describeMissingPayment(order)}</p>
      ) : (
        paid.map((payment) => (
          <div key={payment.id}>
            <Line name={paidBy[payment.method]}>{formatKes(payment.charge_cents)}</Line>
            {payment.receipt ? <Line name="M-PESA receipt">{payment.receipt}</Line> : null}
            {payment.completed_at ? <p>{formatDateTime(payment.completed_at)}</p> : null}
            {payment.refunded_at ? (
              <p className="font-bold">
                {payment.method === 'credit' ? 'Credit again' : 'Sent back'}{' '}
                {formatDateTime(payment.refunded_at)}
              </p>
            ) : null}
            {payment.change_notes
              .filter(({ kind }) => kind === 'returned')
              .map(({ id, amount_cents, way, receipt }) => (
                <Line
                  key={id}
                  name={way === 'cash' ? 'Went back in cash' : `Went back${receipt ? ` ${receipt}` : ''}`}
                >
                  {formatKes(amount_cents)}
                </Line>
              ))}
            {payment.refunded_at === null && changeOf(payment.change_notes).owed > 0 ? (
              <Line name="Kept for the customer">{formatKes(changeOf(payment.change_notes).owed)}</Line>
            ) : null}
          </div>
        ))
      )}
      {trouble ? <p className="font-bold">{trouble}</p> : <p className="mt-2 text-center">Asante!</p>}
    </article>
  );
}

const paidBy: Record<PaymentMethod, string> = {
  prompt: 'Paid by M-PESA',
  till: 'Paid by M-PESA',
  cash: 'Paid in cash',
  credit: 'Paid from credit',
};

const Rule = () => <hr className="border-t border-dashed border-black" />;

function Line({ name, children }: { name: string; children: ReactNode }) {
  return (
    <p className="flex justify-between gap-3 tabular-nums">
      <span>{name}</span>
      <span className="text-right whitespace-nowrap">{children}</span>
    </p>
  );
}

function Fact({ term, children }: { term: string; children: ReactNode }) {
  return (
    <>
      <dt>{term}</dt>
      <dd className="min-w-0 font-bold wrap-anywhere whitespace-pre-line">{children}</dd>
    </>
  );
}
