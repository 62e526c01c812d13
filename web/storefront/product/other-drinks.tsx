// A few suggested drinks on pages without a result.
import { type CardProduct, ProductCard, ProductGrid } from './product-card.tsx';

const othersCount = 4;

/** Up to four drinks in stock in the given order, different flavours first. */
function othersOf(products: CardProduct[]): CardProduct[] {
  const inStock = products.filter(({ stock_quantity }) => stock_quantity > 0);
  const firstOfFlavours = inStock.filter(
    (product, index) => inStock.findIndex(({ category }) => category === product.category) === index,
  );
  return [...new Set([...firstOfFlavours, ...inStock])].slice(0, othersCount);
}

interface OtherDrinksProps {
  products: CardProduct[];
  className: string;
}

export function OtherDrinks({ products, className }: OtherDrinksProps) {
  const others = othersOf(products);
  if (others.length === 0) return null;
  return (
    <section aria-labelledby="others" className={className}>
      <h2 id="others" className="mb-5 text-2xl font-extrabold">
        How about one of these?
      </h2>
      <ProductGrid className="lg:grid-cols-4">
        {others.map((product, index) => (
          <li key={product.slug}>
            <ProductCard product={product} isFirst={index < 2} />
          </li>
        ))}
      </ProductGrid>
    </section>
  );
}
