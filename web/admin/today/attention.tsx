// What waits for staff, as links to where it is done.
import { Link } from 'react-router';
import { formatCount } from '../../../domain/count.ts';
import { useWork, type Work } from '../deliveries/rider-queries.ts';
import { mayOpen } from '../layout/roles/screen-areas.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import type { Waiting } from '../live/use-waiting.ts';
import { useOrdersToAgree } from '../orders/agreement.tsx';
import { useOrdersNeedingReview } from '../orders/order-queries.ts';
import { useEndedLinks } from '../orders/payments/ended-links.tsx';
import { useLowStockCount } from '../products/product-queries.ts';

export interface Matter {
  count: number;
  one: string;
  many: string;
  to: string;
}

/** Whether there is any. */
export const isThere = ({ count }: Matter): boolean => count > 0;

/** The orders of the queue, for screens that do not show it. */
export function queueMatters(work: Work | null | undefined): Matter[] {
  const to = '/admin/today';
  return [
    { count: work?.to_cancel ?? 0, one: 'customer asks to cancel', many: 'customers ask to cancel', to },
    { count: work?.to_prepare ?? 0, one: 'order to prepare', many: 'orders to prepare', to },
    { count: work?.ready ?? 0, one: 'order is ready', many: 'orders are ready', to },
    { count: work?.failed ?? 0, one: 'delivery failed', many: 'deliveries failed', to },
    { count: work?.late ?? 0, one: 'order is late', many: 'orders are late', to },
  ];
}

/** Decisions about money, for screens that do not show them. */
export function useMoneyMatters(waiting: Waiting): Matter[] {
  const reviews = useOrdersNeedingReview()?.count ?? 0;
  return [
    {
      count: reviews,
      one: 'order with money to decide about',
      many: 'orders with money to decide about',
      to: '/admin/orders?decide=open',
    },
    {
      count: waiting.refunds,
      one: 'refund to approve',
      many: 'refunds to approve',
      to: '/admin/orders?decide=open',
    },
  ];
}

/** What waits besides the queue and decisions about money. */
export function useMatters(waiting: Waiting): Matter[] {
  const lowOnStock = useLowStockCount() ?? 0;
  const cash = useWork()?.cash_not_received ?? 0;
  const endedLinks = useEndedLinks() ?? [];
  const toAgree = useOrdersToAgree();
  const { role } = useMember();
  const matters = [
    {
      count: cash,
      one: 'delivered order to receive cash for',
      many: 'delivered orders to receive cash for',
      to: mayOpen(role, '/admin/orders')
        ? '/admin/orders?payment=cash&status=delivered'
        : '/admin/deliveries?status=delivered',
    },
    {
      count: toAgree?.count ?? 0,
      one: 'order to agree fee and day for',
      many: 'orders to agree fee and day for',
      to: `/admin/today/${toAgree?.newest?.id}`,
    },
    {
      count: endedLinks.length,
      one: 'pay link ended unpaid',
      many: 'pay links ended unpaid',
      to: `/admin/today/${endedLinks[0]?.order_id}`,
    },
    {
      count: waiting.money,
      one: 'payment to match or check',
      many: 'payments to match or check',
      to: '/admin/reconciliation',
    },
    {
      count: lowOnStock,
      one: 'product low on stock',
      many: 'products low on stock',
      to: '/admin/products?stock=low&sort=stock',
    },
    { count: waiting.inquiries, one: 'unread inquiry', many: 'unread inquiries', to: '/admin/inquiries' },
    {
      count: waiting.messages,
      one: 'message not sent',
      many: 'messages not sent',
      to: '/admin/messages',
    },
  ];
  return matters.filter(({ to }) => mayOpen(role, to));
}

/** @param isOneLine whether they stay in one line on narrow screens, so that the queue below stays in view */
export function Matters({ matters, isOneLine = false }: { matters: readonly Matter[]; isOneLine?: boolean }) {
  return (
    <ul
      className={`flex gap-2 empty:hidden ${isOneLine ? 'overflow-x-auto max-md:-mx-4 max-md:px-4 counter:max-md:-mx-3 counter:max-md:px-3 lg:flex-wrap counter:lg:flex-nowrap' : 'flex-wrap'}`}
    >
      {matters.filter(isThere).map(({ count, one, many, to }) => (
        <li key={one} className={isOneLine ? 'shrink-0 whitespace-nowrap' : ''}>
          <Link
            to={to}
            className="flex min-h-11 items-center gap-1.5 rounded-md border border-ember-200 bg-ember-50 px-2.5 text-sm font-semibold text-ink no-underline hover:border-ember-400"
          >
            <b className="tabular-nums">{formatCount(count)}</b> {count === 1 ? one : many}
          </Link>
        </li>
      ))}
    </ul>
  );
}
