// Who changed the delivery fee, when, and from what to what.

import { formatKes } from '../../../domain/money.ts';
import { NameInHistory } from '../ui/staff-name.tsx';
import { formatDateTime } from '../ui/time/dates.ts';
import { useFeeChanges } from './price-queries.ts';

export function FeeHistory() {
  const changes = useFeeChanges();
  if (!changes || changes.length === 0) return null;
  return (
    <details className="text-sm">
      <summary className="tap cursor-pointer font-semibold underline">Former delivery fees</summary>
      <ul className="mt-2 grid gap-1.5">
        {changes.map(({ id, from_cents, to_cents, changed_by_email, changed_at }) => (
          <li key={id} className="wrap-anywhere">
            <span className="font-semibold tabular-nums">
              {formatKes(from_cents)} to {formatKes(to_cents)}
            </span>{' '}
            <span className="text-ink-soft">
              <NameInHistory email={changed_by_email} otherwise="The shop itself" />,{' '}
              {formatDateTime(changed_at)}
            </span>
          </li>
        ))}
      </ul>
    </details>
  );
}
