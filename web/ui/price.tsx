// A price: small currency, large amount.
import { formatKsh } from '../../domain/money.ts';

/** The price before an offer, crossed out. */
export function PreviousPrice({ cents, className = '' }: { cents: number; className?: string }) {
  return (
    <s className={`whitespace-nowrap tabular-nums ${className}`}>
      <span className="sr-only">Previous price </span>
      {formatKsh(cents)}
    </s>
  );
}

/** A sentence in which no line breaks between a currency and its amount. */
export function TextWithAmounts({ children }: { children: string }) {
  return children.split(/(KSh [\d,]+\.\d\d)/).map((part, index) =>
    index % 2 === 1 ? (
      <span key={index} className="whitespace-nowrap">
        {part}
      </span>
    ) : (
      part
    ),
  );
}

export function Price({ cents, className = '' }: { cents: number; className?: string }) {
  const [currency, figure] = formatKsh(cents).split(' ');
  return (
    <span className={`font-display font-bold whitespace-nowrap tabular-nums ${className}`}>
      <span className="text-[0.72em] font-semibold">{currency}</span> {figure}
    </span>
  );
}
