// A status as staff see it (specification §4, Admin-managed statuses).
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

/** A status as words: `picked_up` is 'Picked Up'. */
export const statusWords = (status: string): string =>
  status
    .split('_')
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join(' ');

export function StatusBadge({ status }: { status: string | null }) {
  const shown = status || 'pending';
  return <Badge tone={tones[shown] ?? 'grey'}>{statusWords(shown)}</Badge>;
}
