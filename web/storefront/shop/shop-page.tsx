// The product list: search, brand, flavour, sort. The server answers the first view and every view without scripts;
// with scripts the browser has the whole list and filters it at once.
import { useRef } from 'react';
import { data, Link, type ShouldRevalidateFunctionArgs } from 'react-router';
import { selectProducts } from '../../../domain/catalogue.ts';
import { formatKes } from '../../../domain/money.ts';
import { areProducts } from '../../lib/listed-products.ts';
import { categoriesFact, productsFact } from '../../lib/page-facts.ts';
import { shopContext } from '../../lib/shop-context.ts';
import { buttonStyle } from '../../ui/button.tsx';
import { Icon } from '../../ui/icons.tsx';
import { DataBlock } from '../discovery/data-block.tsx';
import { describeTrail } from '../discovery/trail.ts';
import { LastOrderRoom } from '../last-order/last-order-room.tsx';
import { describePage } from '../layout/page-meta.ts';
import { useShop } from '../layout/use-shop.ts';
import { cardColumns, fourColumns, ProductCard, ProductGrid } from '../product/product-card.tsx';
import type { Route } from './+types/shop-page.ts';
import { CatalogueForm } from './catalogue-form.tsx';
import { useCatalogueQuery } from './use-catalogue-query.ts';

export const meta: Route.MetaFunction = ({ matches }) =>
  describePage(matches, {
    title: 'Shop all drinks',
    description:
      'Every bottle, can and flask: nine flavors of khat-based juice and energy drinks. Filter by brand and flavor, order without an account.',
    path: '/shop',
  });

export async function loader({ context }: Route.LoaderArgs) {
  const { store, madeFrom } = context.get(shopContext);
  madeFrom(productsFact, categoriesFact);
  // Read at once, so that all the page shows is of one moment. A category that is no choice any more is hidden here.
  const products = await store.tables
    .from('products')
    .select(`${cardColumns}, description, created_at, categories(name)`)
    .eq('is_active', true)
    .order('created_at', { ascending: false });
  // An answer, not a crash: the page says so in its own words.
  if (products.error || !areProducts(products.data)) {
    return data({ products: null, categories: [] }, { status: 503 });
  }
  return {
    products: products.data.map(({ categories, ...product }) => product),
    categories: [...new Set(products.data.flatMap(({ categories }) => categories?.name ?? []))],
  };
}

// Another search is another view of the same list.
export function shouldRevalidate({
  currentUrl,
  nextUrl,
  defaultShouldRevalidate,
}: ShouldRevalidateFunctionArgs) {
  return currentUrl.pathname === nextUrl.pathname && currentUrl.search !== nextUrl.search
    ? false
    : defaultShouldRevalidate;
}

export default function ShopPage({ loaderData: { products, categories } }: Route.ComponentProps) {
  const { settings } = useShop();
  return (
    <Frame>
      {products === null ? (
        <LoadError />
      ) : products.length > 0 ? (
        <Catalogue products={products} categories={categories} deliveryFee={settings.delivery_fee} />
      ) : (
        <EmptyShop />
      )}
    </Frame>
  );
}

/** A list that does not come to the browser has the words of one that the database does not give. */
export function ErrorBoundary({ error }: Route.ErrorBoundaryProps) {
  // Anything else is for the frame of all pages, such as a page that is kept for reading offline.
  const isUnreached = typeof document !== 'undefined' && error instanceof TypeError && navigator.onLine;
  if (!isUnreached) throw error;
  return (
    <Frame>
      <LoadError />
    </Frame>
  );
}

const trail = [{ name: 'Shop all drinks', path: '/shop' }];

function Frame({ children }: { children: React.ReactNode }) {
  const { config } = useShop();
  return (
    <>
      <DataBlock data={import.meta.env.SSR ? [describeTrail(config.publicUrl, trail)] : null} />
      <header className="on-dusk relative overflow-hidden bg-[linear-gradient(180deg,var(--color-dusk-950),var(--color-dusk-800)_60%,var(--color-afterglow-far))] text-white">
        <div
          aria-hidden="true"
          className="absolute right-[-3rem] bottom-[-10.5rem] size-60 rounded-full bg-linear-to-b from-sun-high to-sun-low shadow-sun md:top-10 md:right-[-5rem] md:bottom-auto md:size-88 lg:right-[12%]"
        />
        <div className="page relative grid gap-3 pt-8 pb-18 md:pt-16 md:pb-24">
          <h1 className="text-hero font-extrabold">Shop all drinks</h1>
          <p className="max-w-[44ch] text-lg text-dusk-100">
            Three brands, nine flavors, always sent out cold.
          </p>
        </div>
      </header>
      <div className="page relative -mt-10">
        <LastOrderRoom className="not-empty:mb-4 in-data-[orders]:mb-4" />
        {children}
      </div>
    </>
  );
}

type Products = NonNullable<Route.ComponentProps['loaderData']['products']>;

interface CatalogueProps {
  products: Products;
  /** The active ones: they are offered as flavours when there is a product of theirs. */
  categories: string[];
  deliveryFee: number;
}

function Catalogue({ products, categories, deliveryFee }: CatalogueProps) {
  const { query, change, formKey } = useCatalogueQuery();
  const found = useRef<HTMLParagraphElement>(null);
  const shown = selectProducts(products, query);
  const distinct = (values: (string | null)[]) =>
    [...new Set(values.filter((value) => value !== null))].sort();

  return (
    <>
      <CatalogueForm
        key={formKey}
        query={query}
        brands={distinct(products.map(({ brand }) => brand))}
        // A flavour that an old link has chosen can be seen to be chosen, offered or not.
        categories={distinct(products.map(({ category }) => category)).filter(
          (category) => categories.includes(category) || category === query.category,
        )}
        onChange={change}
      />
      <p className="mt-4 flex items-center gap-3 rounded-md bg-leaf-100 px-4 py-3 md:mt-5 text-sm font-semibold text-leaf-900">
        <Icon name="truck" />
        {deliveryFee > 0
          ? `${formatKes(deliveryFee)} delivery fee applies to all orders`
          : 'Free delivery on all orders'}
      </p>
      <p
        ref={found}
        tabIndex={-1}
        role="status"
        className="mt-5 mb-4 outline-none! text-sm md:mt-8 md:mb-5 font-semibold text-ink-soft"
      >
        {shown.length === 1 ? '1 drink' : `${shown.length} drinks`}
      </p>
      {shown.length > 0 ? (
        <>
          <h2 className="sr-only">Products</h2>
          <ProductGrid className="lg:grid-cols-4">
            {shown.map((product, index) => (
              <li key={product.slug} className={index < 6 ? '' : 'product-below'}>
                <ProductCard product={product} isFirst={index < 2} sizes={fourColumns} />
              </li>
            ))}
          </ProductGrid>
        </>
      ) : (
        <div className="grid justify-items-center gap-3 rounded-2xl bg-paper-deep px-6 py-12 text-center md:py-20">
          <p aria-hidden="true" className="text-6xl">
            🧃
          </p>
          <h2 className="text-3xl">No products found</h2>
          <p className="text-ink-soft">Try adjusting your search or filter criteria</p>
          <Link
            to="/shop"
            // It goes with the words around it: one goes on at what is found now.
            onClick={() => found.current?.focus({ preventScroll: true })}
            className={`${buttonStyle('outline')} mt-3`}
          >
            Show everything
          </Link>
        </div>
      )}
    </>
  );
}

/** Nothing is sold yet: there is nothing to search either. */
function EmptyShop() {
  return (
    <div className="grid justify-items-center gap-3 rounded-2xl bg-card px-6 py-20 text-center shadow-lg">
      <h2 className="text-3xl">No products found</h2>
      <p className="text-ink-soft">Our fridge is being filled. Please look in again soon.</p>
      <Link to="/contact" className={`${buttonStyle('outline')} mt-3`}>
        Contact Us
      </Link>
    </div>
  );
}

function LoadError() {
  return (
    <div
      role="alert"
      className="grid justify-items-center gap-3 rounded-2xl bg-card px-6 py-20 text-center shadow-lg"
    >
      <h2 className="text-3xl">Error Loading Products</h2>
      <p className="text-ink-soft">Please try again later.</p>
      <a href="/shop" className={`${buttonStyle('outline')} mt-3`}>
        Try again
      </a>
    </div>
  );
}
