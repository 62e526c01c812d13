// A chain of totals and the steps between them.
import { Link } from 'react-router';
import { formatKes } from '../../../domain/money.ts';
import { mayOpen } from '../layout/roles/screen-areas.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import type { Bridge, BridgeLine } from './day-bridge.ts';

/** A step between two totals, such as `+ KES 200`. */
export const describeStep = (cents: number): string =>
  cents === 0 ? formatKes(0) : `${cents > 0 ? '+' : '−'} ${formatKes(Math.abs(cents))}`;

export function BridgeTable({ bridge: { title, lines } }: { bridge: Bridge }) {
  return (
    <table className="w-full text-left text-sm">
      <caption className="sr-only">{title}</caption>
      <tbody>
        {lines.map((line) => (
          <Line key={line.label} line={line} />
        ))}
      </tbody>
    </table>
  );
}

function Line({ line: { label, cents, isTotal = false, where, to } }: { line: BridgeLine }) {
  const { role } = useMember();
  return (
    <tr
      className={`align-baseline ${isTotal ? 'border-t border-line-strong/60 font-semibold' : 'text-ink-soft'}`}
    >
      <th scope="row" className={`py-1.5 pr-3 ${isTotal ? '' : 'pl-3 font-normal'}`}>
        {to && mayOpen(role, to) ? (
          <Link
            to={to}
            className="underline decoration-line-strong underline-offset-4 hover:text-ink max-md:tap"
          >
            {label}
          </Link>
        ) : (
          label
        )}
        {where ? <span className="block text-xs font-normal text-ink-soft">{where}</span> : null}
      </th>
      <td className="py-1.5 text-right whitespace-nowrap tabular-nums">
        {isTotal ? formatKes(cents) : describeStep(cents)}
      </td>
    </tr>
  );
}
