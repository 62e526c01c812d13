// The way on from a search that is about an order or a price.
import { Link } from 'react-router';
import { readSearchPurpose } from '../../../domain/search-purpose.ts';

const linkStyle =
  '-my-2 inline-block py-2.5 font-bold text-leaf-700 underline underline-offset-4 hover:text-leaf-800';

export default function SearchHint({ search, onSortByPrice }: { search: string; onSortByPrice: () => void }) {
  const purpose = readSearchPurpose(search);
  if (!purpose) return null;
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
  const { trackingNumber } = purpose;
  return (
    <p className="text-lg">
      Looking for an order?{' '}
      <Link to={trackingNumber ? `/track-order/${trackingNumber}` : '/track-order'} className={linkStyle}>
        {trackingNumber ? `Track ${trackingNumber}` : 'Track it by its number'}
      </Link>
    </p>
  );
}
