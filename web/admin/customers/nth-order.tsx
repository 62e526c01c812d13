// The badge of a repeat customer, and the rating of a delivery, beside the customer's name in a list.
import { useMay } from '../layout/roles/use-member.tsx';
import { ordinal } from './ordinal.ts';

interface NthOrderProps {
  nth: number;
  rating?: { stars: number } | null;
}

export function NthOrder({ nth, rating }: NthOrderProps) {
  const may = useMay();
  // The counter reads no histories of customers.
  if (!may('orders') || (nth <= 1 && !rating)) return null;
  return (
    <b className="shrink-0 text-xs text-ink-soft">
      {ordinal(nth)}
      <span className="sr-only"> order</span>
      {rating ? ` ★${rating.stars}` : ''}
    </b>
  );
}
