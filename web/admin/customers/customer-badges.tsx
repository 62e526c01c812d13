import { formatKes } from '../../../domain/money.ts';
import { Badge } from '../../ui/badge.tsx';

interface CustomerBadgesProps {
  customer: { orders: number; credit_cents: number; is_blocked: boolean };
}

/** What staff have to know of a customer at a glance. */
export const CustomerBadges = ({ customer: { orders, credit_cents, is_blocked } }: CustomerBadgesProps) => (
  <span className="flex flex-wrap gap-1.5 empty:hidden">
    {is_blocked ? (
      <Badge tone="red" isSmall>
        Blocked
      </Badge>
    ) : null}
    {credit_cents > 0 ? (
      <Badge tone="yellow" isSmall>
        {formatKes(credit_cents)} credit
      </Badge>
    ) : null}
    {orders > 1 ? (
      <Badge tone="green" isSmall>
        Repeat customer
      </Badge>
    ) : null}
  </span>
);
