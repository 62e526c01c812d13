// An amount as shoppers read it: the currency small, the figure large.
import { formatKsh } from '../../domain/money.ts';

export function Price({ cents, className = '' }: { cents: number; className?: string }) {
  const [currency, figure] = formatKsh(cents).split(' ');
  return (
    <span className={`font-display font-bold whitespace-nowrap tabular-nums ${className}`}>
      <span className="text-[0.72em] font-semibold">{currency}</span> {figure}
    </span>
  );
}
