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

export function StatusBadge({ status }: { status: string | null }) {
  const shown = status || 'pending';
  const words = shown.replaceAll('_', ' ');
  return <Badge tone={tones[shown] ?? 'grey'}>{words.charAt(0).toUpperCase() + words.slice(1)}</Badge>;
}
