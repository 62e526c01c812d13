// A hint for searches about an order, a price, or a question to the shop.
import { Link } from 'react-router';
import { formatKsh } from '../../../domain/money.ts';
import { shopTextPath } from '../layout/navigation.ts';
import { readSearchPurpose } from './search-purpose.ts';

const linkStyle =
  '-my-2 inline-block py-2.5 font-bold text-leaf-700 underline underline-offset-4 hover:text-leaf-800';

const answers = {
  delivery: {
    question: 'A question about delivery?',
    label: 'See where and when we deliver',
    to: '/delivery',
  },
  contact: { question: 'Looking for us?', label: 'See our phone, chat and places', to: '/contact' },
  question: { question: 'A question?', label: 'Read the answers', to: shopTextPath('faq') },
} as const;

interface SearchHintProps {
  search: string;
  onSortByPrice: () => void;
  /** URL of the results sorted by price; null if they are already. Undefined without results. */
  byPrice?: string | null;
  /** The highest price that the search names, in cents; null without one. */
  mostCents?: number | null;
  /** Whether a found drink costs no more. */
  isMet?: boolean;
}

export default function SearchHint({
  search,
  onSortByPrice,
  byPrice,
  mostCents = null,
  isMet = false,
}: SearchHintProps) {
  if (mostCents !== null) {
    return (
      <p className="mb-4 text-lg">
        {isMet
          ? `These cost ${formatKsh(mostCents)} or less.`
          : `Nothing like that costs ${formatKsh(mostCents)} or less. These come closest.`}
      </p>
    );
  }
  const purpose = readSearchPurpose(search);
  const isFound = byPrice !== undefined;
  if (!purpose) return null;
  if (purpose.kind === 'price' && isFound) {
    return (
      <p className="mb-4 text-lg">
        The search finds drinks by name, not by price.{' '}
        {byPrice ? (
          <Link to={byPrice} replace preventScrollReset onClick={onSortByPrice} className={linkStyle}>
            See these, cheapest first
          </Link>
        ) : null}
      </p>
    );
  }
  if (purpose.kind === 'price') {
    return (
      <p className="text-lg">
        Looking for a price?{' '}
        <Link to="/shop?sort=price" onClick={onSortByPrice} className={linkStyle}>
          See all drinks, cheapest first
        </Link>
      </p>
    );
  }
  if (purpose.kind !== 'order') {
    const { question, label, to } = answers[purpose.kind];
    return (
      <p className={isFound ? 'mb-4 text-lg' : 'text-lg'}>
        {question}{' '}
        <Link to={to} className={linkStyle}>
          {label}
        </Link>
      </p>
    );
  }
  const { trackingNumber } = purpose;
  // A pasted link has words that find drinks, too.
  if (isFound && !trackingNumber) return null;
  return (
    <p className={isFound ? 'mb-4 text-lg' : 'text-lg'}>
      Looking for an order?{' '}
      <Link to={trackingNumber ? `/track-order/${trackingNumber}` : '/track-order'} className={linkStyle}>
        {trackingNumber ? `Track ${trackingNumber}` : 'Track it by its number'}
      </Link>
    </p>
  );
}
