// Who changed a price, or the delivery fee, when, and from what to what.
import { formatKes } from '../../../domain/money.ts';
import { formatDateTime } from '../ui/dates.ts';
import { usePriceChanges } from './price-queries.ts';

/** @param productId null for the delivery fee */
export function PriceHistory({ productId, label }: { productId: string | null; label: string }) {
  const changes = usePriceChanges(productId);
  if (!changes || changes.length === 0) return null;
  return (
    <details className="text-sm">
      <summary className="tap cursor-pointer font-semibold underline">{label}</summary>
      <ul className="mt-2 grid gap-1.5">
        {changes.map(({ id, from_cents, to_cents, changed_by_email, changed_at }) => (
          <li key={id} className="wrap-anywhere">
            <span className="font-semibold tabular-nums">
              {formatKes(from_cents)} to {formatKes(to_cents)}
            </span>{' '}
            <span className="text-ink-soft">
              {changed_by_email ?? 'The shop itself'}, {formatDateTime(changed_at)}
            </span>
          </li>
        ))}
      </ul>
    </details>
  );
}
