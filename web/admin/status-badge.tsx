// A status as a badge for staff (specification §4, Admin-managed statuses).
import { Badge, type BadgeTone } from '../ui/badge.tsx';

const tones: Record<string, BadgeTone> = {
  pending: 'yellow',
  processing: 'blue',
  assigned: 'blue',
  shipped: 'purple',
  picked_up: 'purple',
  in_transit: 'orange',
  out_for_delivery: 'purple',
  delivered: 'green',
  cancelled: 'red',
  failed: 'red',
};

/** A status as text: `picked_up` is 'Picked Up'. */
export const statusLabel = (status: string): string =>
  status
    .split('_')
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join(' ');

interface StatusBadgeProps {
  status: string | null;
  /** In a row of a list. */
  isSmall?: boolean;
}

export function StatusBadge({ status, isSmall = false }: StatusBadgeProps) {
  const shownStatus = status || 'pending';
  return (
    <Badge tone={tones[shownStatus] ?? 'grey'} isSmall={isSmall}>
      {statusLabel(shownStatus)}
    </Badge>
  );
}
