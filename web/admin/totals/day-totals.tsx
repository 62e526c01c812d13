// "Why do these differ?": the totals of a day with the steps between them, loaded when it is opened.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { formatKes } from '../../../domain/money.ts';
import { dataOf } from '../data/table-answer.ts';
import { useMember } from '../layout/use-member.tsx';
import { bridgesOf } from './day-bridge.ts';

/** A step between two totals, such as `+ KES 200`. */
const describeStep = (cents: number): string => `${cents > 0 ? '+' : '−'} ${formatKes(Math.abs(cents))}`;

interface DayTotalsProps {
  /** Day in Nairobi, as YYYY-MM-DD. */
  day: string;
  /** What is explained: 'Why do these differ?' */
  question: string;
}

export function DayTotals({ day, question }: DayTotalsProps) {
  const [isOpen, setOpen] = useState(false);
  const { tables } = useMember().staff;
  const { data, error } = useQuery({
    // Invalidated with the reconciliation, by every change of orders and payments.
    queryKey: ['reconciliation', 'totals', day],
    queryFn: async ({ signal }) =>
      dataOf(await tables.rpc('day_totals', { day }).abortSignal(signal).single()),
    enabled: isOpen,
  });
  return (
    <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)} className="text-sm">
      <summary className="tap cursor-pointer font-semibold underline">{question}</summary>
      {data ? (
        <div className="mt-3 grid items-start gap-x-8 gap-y-4 lg:grid-cols-2">
          {bridgesOf(data).map(({ title, lines }) => (
            <table key={title} className="w-full text-left">
              <caption className="pb-1 text-left font-semibold">{title}</caption>
              <tbody>
                {lines.map(({ label, cents, isTotal = false, where }) => (
                  <tr
                    key={label}
                    className={isTotal ? 'border-t border-line font-semibold' : 'text-ink-soft'}
                  >
                    <th scope="row" className={`py-1 pr-3 ${isTotal ? '' : 'pl-3 font-normal'}`}>
                      {label}
                      {where ? (
                        <span className="block text-xs font-normal text-ink-soft">{where}</span>
                      ) : null}
                    </th>
                    <td className="py-1 text-right align-top whitespace-nowrap tabular-nums">
                      {isTotal || cents === 0 ? formatKes(cents) : describeStep(cents)}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          ))}
          <p className="text-ink-soft lg:col-span-2">
            Included: {formatKes(data.delivery_fees)} of delivery fees in the paid orders, and{' '}
            {formatKes(data.in_review)} that arrived for orders that need review.
          </p>
        </div>
      ) : (
        <p role="status" className="mt-2 text-ink-soft">
          {error ? 'The totals could not be loaded.' : 'Loading...'}
        </p>
      )}
    </details>
  );
}
