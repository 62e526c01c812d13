// What the shop page shows for a search without a result. Loaded on use.
import { Link } from 'react-router';
import { buttonStyle } from '../../ui/button.tsx';
import { type CardProduct, fourColumns, ProductCard, ProductGrid } from '../product/product-card.tsx';
import SearchHint from './search-hint.tsx';

const othersCount = 4;

/** Up to four drinks in stock, the newest, of different flavours first. */
function othersOf(products: CardProduct[]): CardProduct[] {
  const inStock = products.filter(({ stock_quantity }) => stock_quantity > 0);
  const first = new Map(inStock.map((product) => [product.category, product] as const).reverse());
  return [...new Set([...[...first.values()].reverse(), ...inStock])].slice(0, othersCount);
}

interface NothingFoundProps {
  /** Of the whole list, newest first. */
  products: CardProduct[];
  search: string;
  onShowAll: () => void;
}

export default function NothingFound({ products, search, onShowAll }: NothingFoundProps) {
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
      <section aria-labelledby="others" className="pt-10">
        <h2 id="others" className="mb-5 text-2xl font-extrabold">
          How about one of these?
        </h2>
        <ProductGrid className="lg:grid-cols-4">
          {othersOf(products).map((product, index) => (
            <li key={product.slug}>
              <ProductCard product={product} isFirst={index < 2} sizes={fourColumns} />
            </li>
          ))}
        </ProductGrid>
      </section>
    </>
  );
}
