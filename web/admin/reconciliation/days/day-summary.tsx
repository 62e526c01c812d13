// The totals of a day: the shop's and M-PESA's, and the difference.
import { formatCount } from '../../../../domain/count.ts';
import { formatKes } from '../../../../domain/money.ts';
import { type BookRow, bookedCents } from '../differences/difference-texts.ts';

/** Cents of completed payments, and of M-PESA's transactions. */
export function sumsOf(rows: readonly BookRow[]) {
  let [ours, theirs, open, uncompared] = [0, 0, 0, 0];
  for (const row of rows) {
    ours += bookedCents(row) ?? 0;
    theirs += row.their_cents ?? 0;
    if (row.is_open) open += 1;
    if (row.kind === 'not_compared') uncompared += row.our_cents ?? 0;
  }
  return { ours, theirs, open, uncompared };
}

export function DaySummary({ rows }: { rows: readonly BookRow[] }) {
  const { ours, theirs, open, uncompared } = sumsOf(rows);
  const difference = ours - theirs - uncompared;
  return (
    <dl className="flex min-w-60 flex-1 flex-wrap items-baseline gap-x-4 text-sm">
      <Sum term="Our books" value={formatKes(ours)}>
        {uncompared > 0 ? `${formatKes(uncompared)} not compared yet` : ''}
      </Sum>
      <Sum term="M-PESA" value={formatKes(theirs)} />
      <Sum term="Difference" value={formatKes(difference)} isBad={difference !== 0 && open > 0}>
        {describeDifference(rows)}
      </Sum>
    </dl>
  );
}

/** The same in one line, for print. */
export function describeSums(rows: readonly BookRow[]): string {
  const { ours, theirs, open, uncompared } = sumsOf(rows);
  return [
    `Our books ${formatKes(ours)}`,
    ...(uncompared > 0 ? [`not compared yet ${formatKes(uncompared)}`] : []),
    `M-PESA ${formatKes(theirs)}`,
    `Difference ${formatKes(ours - theirs - uncompared)}`,
    `To decide ${formatCount(open)}`,
  ].join(' · ');
}

export function describeDifference(rows: readonly BookRow[]): string {
  const { ours, theirs, open, uncompared } = sumsOf(rows);
  const difference = ours - theirs - uncompared;
  if (difference === 0) {
    // Equal sums prove nothing about payments that are not compared, or about rows to decide.
    if (open > 0) return 'Only the sums agree';
    if (uncompared === 0) return 'The books agree';
    return ours === uncompared ? 'Nothing is compared yet' : 'What is compared agrees';
  }
  if (open === 0) return 'All of it is decided';
  return difference > 0 ? 'More here than at M-PESA' : 'More at M-PESA than here';
}

interface SumProps {
  term: string;
  value: string;
  isBad?: boolean;
  children?: string;
}

function Sum({ term, value, isBad = false, children }: SumProps) {
  return (
    <div className="flex flex-wrap items-baseline gap-x-1.5">
      <dt className="text-ink-soft">{term}</dt>
      <dd className={`font-bold tabular-nums ${isBad ? 'text-danger' : ''}`}>{value}</dd>
      {children ? <dd className="text-ink-soft">({children})</dd> : null}
    </div>
  );
}
