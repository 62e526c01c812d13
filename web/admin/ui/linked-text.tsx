// A text of a customer or of the shop, in which tracking numbers are links to their orders.
import { Link } from 'react-router';
import { findTrackingNumbers } from '../../../domain/orders/tracking-number.ts';

export function LinkedText({ text }: { text: string }) {
  const found = findTrackingNumbers(text);
  return (
    <>
      {found.map(({ number, start, end }, index) => (
        <span key={start}>
          {text.slice(found[index - 1]?.end ?? 0, start)}
          <Link to={`/admin/orders/${number}`} className="font-semibold underline">
            {text.slice(start, end)}
          </Link>
        </span>
      ))}
      {text.slice(found.at(-1)?.end ?? 0)}
    </>
  );
}
