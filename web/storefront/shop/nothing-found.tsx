// Shown on the shop page for a search without results. Loaded on use.
import { Link } from 'react-router';
import { buttonStyle } from '../../ui/button.tsx';
import { OtherDrinks } from '../product/other-drinks.tsx';
import type { CardProduct } from '../product/product-card.tsx';
import SearchHint from './search-hint.tsx';
import { readSearchPurpose } from './search-purpose.ts';

interface NothingFoundProps {
  /** Of the whole list, newest first. */
  products: CardProduct[];
  search: string;
  onShowAll: () => void;
}

export default function NothingFound({ products, search, onShowAll }: NothingFoundProps) {
  const isAboutPrice = readSearchPurpose(search)?.kind === 'price';
  const others = isAboutPrice ? [...products].sort((one, other) => one.price - other.price) : products;
  return (
    <>
      <div className="grid justify-items-center gap-2 rounded-2xl bg-paper-deep px-6 py-8 text-center md:py-12">
        <p aria-hidden="true" className="text-5xl">
          🧃
        </p>
        <h2 className="text-3xl">No products found</h2>
        <p className="text-ink-soft">Try adjusting your search or filter criteria</p>
        <SearchHint search={search} onSortByPrice={onShowAll} />
        <Link to="/shop" onClick={onShowAll} className={`${buttonStyle('outline')} mt-2`}>
          Show everything
        </Link>
      </div>
      <OtherDrinks products={others} className="pt-10" />
    </>
  );
}
