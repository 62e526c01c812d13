// The stored data of one person as numbers and orders, with buttons to export and erase it.
import { Link } from 'react-router';
import { formatKes, shownAmount } from '../../../domain/money.ts';
import { formatPhone } from '../../../domain/people/phone.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { saveFile } from '../list/export/save-file.ts';
import { formatDate, formatDateTime } from '../ui/time/dates.ts';
import type { HeldData as Held } from './customer-data-queries.ts';

interface HeldDataProps {
  held: Held;
  onFind(identifier: string): void;
  onErase(): void;
}

export function HeldData({ held, onFind, onErase }: HeldDataProps) {
  const { identifier, orders, payments_for_others, inquiries, newsletter, newsletter_mails } = held;
  const sum = (of: (order: Held['orders'][number]) => unknown[]) =>
    orders.reduce((count, order) => count + of(order).length, 0);
  const figures: [term: string, count: number | string][] = [
    ['Orders', orders.length],
    ['Payments', sum(({ payments }) => payments) + payments_for_others.length],
    ['Messages to them', sum(({ messages }) => messages) + newsletter_mails.length],
    ['Inquiries', inquiries.length],
    ['Newsletter', newsletter ? (newsletter.confirmed_at ? 'On the list' : 'Not confirmed') : 'No'],
  ];
  const isNothing =
    orders.length + payments_for_others.length + inquiries.length + newsletter_mails.length === 0 &&
    !newsletter;
  const [lastErasure] = held.earlier_requests;

  return (
    <Card
      title={formatPhone(identifier)}
      description={lastErasure ? `Erased before, ${formatDateTime(lastErasure.requested_at)}` : undefined}
    >
      {isNothing ? (
        <p>The shop holds nothing under this phone or email.</p>
      ) : (
        <div className="grid gap-6">
          <dl className="grid grid-cols-2 gap-x-6 gap-y-4 sm:grid-cols-3 lg:grid-cols-5">
            {figures.map(([term, count]) => (
              <div key={term}>
                <dt className="text-sm text-ink-soft">{term}</dt>
                <dd className="text-lg font-bold tabular-nums">{count}</dd>
              </div>
            ))}
          </dl>
          {orders.length > 0 ? (
            <ul aria-label="Orders" className="border-t border-line">
              {orders.map((order) => (
                <li
                  key={order.id}
                  className="flex flex-wrap items-baseline justify-between gap-x-6 gap-y-1 border-b border-line py-3 text-sm"
                >
                  <span className="wrap-anywhere">
                    <Link to={`/admin/orders/${order.id}`} className="tap font-semibold underline">
                      {order.order_number}
                    </Link>{' '}
                    <bdi>{order.customer_name}</bdi>,{' '}
                    {formatKes(shownAmount(order.total_amount, order.payment_status))},{' '}
                    {formatDate(order.created_at)}
                  </span>
                  {order.reason_to_keep ? (
                    <span className="font-semibold text-ember-800">{order.reason_to_keep}</span>
                  ) : null}
                </li>
              ))}
            </ul>
          ) : null}
          {held.also_used.length > 0 ? (
            <div>
              <p className="text-sm">These orders also name:</p>
              <div className="mt-2 flex flex-wrap gap-3">
                {held.also_used.map((other) => (
                  <Button key={other} tone="quiet" onClick={() => onFind(other)}>
                    <span className="sr-only">Find </span>
                    {formatPhone(other)}
                  </Button>
                ))}
              </div>
            </div>
          ) : null}
          <div className="flex flex-wrap gap-3 max-md:*:grow">
            <Button onClick={() => saveFile('customer-data', 'json', JSON.stringify(held, null, 2))}>
              Download a copy (JSON)
            </Button>
            <Button tone="danger" onClick={onErase} aria-haspopup="dialog">
              Erase...
            </Button>
          </div>
        </div>
      )}
    </Card>
  );
}
