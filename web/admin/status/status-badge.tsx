// A status as a badge for staff (docs/product.md#statuses).

import { Badge } from '../../ui/badge.tsx';
import { labelOfStatus } from './staff-labels.ts';

export type StaffStatus = Parameters<typeof labelOfStatus>[0];

/** A status as text: `picked_up` is 'Picked Up'. */
export const statusLabel = (status: StaffStatus): string => labelOfStatus(status).text;

interface StatusBadgeProps {
  status: StaffStatus | null;
  /** In a row of a list. */
  isSmall?: boolean;
}

export function StatusBadge({ status, isSmall = false }: StatusBadgeProps) {
  const { text, tone } = labelOfStatus(status || 'pending');
  return (
    <Badge tone={tone} isSmall={isSmall}>
      {text}
    </Badge>
  );
}
