// Cash of delivered orders that was not received by the end of a day.
import { Link } from 'react-router';
import { formatKes } from '../../../domain/money.ts';
import type { CashDue } from './day-queries.ts';

/** Such as "Still with Brian: KES 951, 1 order". */
export function describeCashDue({ person, orders, cents, open_orders }: CashDue): string {
  const received = orders - open_orders;
  const place =
    person === null
      ? 'Delivered without a rider'
      : received === 0
        ? `Still with ${person}`
        : `With ${person} at the end of the day`;
  const since =
    received === 0 ? '' : received === orders ? ', received since' : `, ${received} of them received since`;
  return `${place}: ${formatKes(cents)}, ${orders} ${orders === 1 ? 'order' : 'orders'}${since}`;
}

const ordersOf = (person: string | null): string =>
  `/admin/orders?payment=cash&status=delivered${person === null ? '' : `&rider=${encodeURIComponent(person)}`}`;

/** With links to the orders whose cash is to be received. */
export function CashDueList({ cashDue }: { cashDue: readonly CashDue[] }) {
  return (
    <ul
      aria-label="Cash not received by the end of the day"
      className="grid gap-1 border-t border-line-strong/60 pt-2 text-sm empty:hidden"
    >
      {cashDue.map((due) => (
        <li key={due.person}>
          {due.open_orders > 0 ? (
            <Link to={ordersOf(due.person)} className="tap font-semibold underline underline-offset-4">
              {describeCashDue(due)}
            </Link>
          ) : (
            describeCashDue(due)
          )}
        </li>
      ))}
    </ul>
  );
}
