// The product list: search, brand, flavour, sort. The server searches; the browser has the whole list and filters and sorts
// it at once.
import { lazy, Suspense, useId, useRef, useState } from 'react';
import { data, Link, type ShouldRevalidateFunctionArgs, useSearchParams } from 'react-router';
import {
  type CatalogueQuery,
  groupProducts,
  type ListOrder,
  readCatalogueQuery,
  searchByWords,
  selectProducts,
  writeCatalogueQuery,
} from '../../../domain/catalogue.ts';
import { formatKes } from '../../../domain/money.ts';
import { areProducts } from '../../lib/listed-products.ts';
import { categoriesFact, productsFact, synonymsFact } from '../../lib/page-facts.ts';
import { shopContext } from '../../lib/shop-context.ts';
import { buttonStyle } from '../../ui/button.tsx';
import { FlavourDot } from '../../ui/flavour.tsx';
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

/** As many as `find_products` gives at most. */
const maxFound = 250;

const queryOf = (search: string) => readCatalogueQuery(new URLSearchParams(search));

const titles: Partial<Record<ListOrder, string>> = { brand: 'Shop by brand', flavor: 'Shop by flavor' };
const titleOf = ({ sort }: CatalogueQuery) => titles[sort] ?? 'Shop all drinks';

export const meta: Route.MetaFunction = ({ matches, location }) =>
  describePage(matches, {
    title: titleOf(queryOf(location.search)),
    description:
      'Every bottle, can and flask: nine flavors of khat-based juice and energy drinks. Filter by brand and flavor, order without an account.',
    path: '/shop',
  });

export async function loader({ context, request }: Route.LoaderArgs) {
  const { store, madeFrom } = context.get(shopContext);
  const search = queryOf(new URL(request.url).search).search.trim();
  madeFrom(productsFact, categoriesFact, ...(search ? [synonymsFact] : []));
  const { tables } = store;
  const [products, found] = await Promise.all([
    // The category's name is null once it is inactive: its products stay, the filter no longer offers it.
    tables
      .from('products')
      .select(`${cardColumns}, created_at, categories(name)`)
      .eq('is_active', true)
      .order('created_at', { ascending: false }),
    search ? tables.rpc('find_products', { search }, { get: true }) : null,
  ]);
  const { slugs, correction } = (found?.data ?? {}) as { slugs?: unknown; correction?: unknown };
  // The page says so in its own words.
  if (products.error || !areProducts(products.data) || (found && !Array.isArray(slugs))) {
    return data({ products: null, categories: [], search, found: null, correction: null }, { status: 503 });
  }
  return {
    products: products.data.map(({ categories, ...product }) => product),
    categories: [...new Set(products.data.flatMap(({ categories }) => categories?.name ?? []))],
    /** The search text that `found` and `correction` belong to. */
    search,
    /** Slugs, best first; null without a search. */
    found: found ? (slugs as string[]) : null,
    correction: typeof correction === 'string' ? correction : null,
  };
}

// Only another search text asks the server: filters and sorts are another view of the same list.
export function shouldRevalidate({
  currentUrl,
  nextUrl,
  defaultShouldRevalidate,
}: ShouldRevalidateFunctionArgs) {
  if (currentUrl.pathname !== nextUrl.pathname || currentUrl.search === nextUrl.search)
    return defaultShouldRevalidate;
  const search = queryOf(nextUrl.search).search.trim();
  return search !== '' && search !== queryOf(currentUrl.search).search.trim() && navigator.onLine;
}

export default function ShopPage({ loaderData }: Route.ComponentProps) {
  const { settings } = useShop();
  const { products } = loaderData;
  return (
    <Frame>
      {products === null ? (
        <LoadError />
      ) : products.length > 0 ? (
        <Catalogue {...loaderData} products={products} deliveryFee={settings.delivery_fee} />
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
  const [parameters] = useSearchParams();
  return (
    <>
      <DataBlock data={import.meta.env.SSR ? [describeTrail(config.publicUrl, trail)] : null} />
      {/* Low: the drinks belong on the first screen too. */}
      <header className="on-dusk relative overflow-hidden bg-[linear-gradient(180deg,var(--color-dusk-950),var(--color-dusk-800)_60%,var(--color-afterglow-far))] text-white">
        <div
          aria-hidden="true"
          className="absolute right-[-2rem] bottom-[-6rem] size-40 rounded-full bg-linear-to-b from-sun-high to-sun-low shadow-sun md:right-[12%] md:bottom-[-11.5rem] md:size-72"
        />
        <div className="page relative flex flex-wrap items-baseline gap-x-8 gap-y-1 pt-4 pb-12 md:pt-5 md:pb-13">
          <h1 className="text-4xl font-extrabold">{titleOf(readCatalogueQuery(parameters))}</h1>
          <p className="text-lg text-dusk-100 max-xl:sr-only">
            Three brands, nine flavors, always sent out cold.
          </p>
        </div>
      </header>
      <div className="page relative -mt-8">
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
  search: string;
  found: string[] | null;
  correction: string | null;
  deliveryFee: number;
}

const pathOf = (query: CatalogueQuery) => `/shop?${writeCatalogueQuery(query)}`;
const isOffline = () => typeof navigator !== 'undefined' && !navigator.onLine;

function Catalogue({ products, categories, search, found, correction, deliveryFee }: CatalogueProps) {
  const [isSheetOpen, setSheetOpen] = useState(false);
  const { query, change, formKey } = useCatalogueQuery(isSheetOpen);
  const status = useRef<HTMLParagraphElement>(null);
  const wanted = query.search.trim();
  const isAnswered = wanted === search;
  // Until the server has answered, the results of the text before stay.
  const matching =
    wanted === '' ? null : isAnswered || !isOffline() ? found : searchByWords(products, wanted);
  const shown = selectProducts(products, query, matching);
  const mayBeMore = matching?.length === maxFound ? '+' : '';
  const distinct = (values: (string | null)[]) =>
    [...new Set(values.filter((value) => value !== null))].sort();

  return (
    <>
      <CatalogueForm
        key={formKey}
        query={query}
        brands={distinct(products.map(({ brand }) => brand))}
        // A flavour that an old link has chosen is shown as chosen, offered or not.
        categories={distinct(products.map(({ category }) => category)).filter(
          (category) => categories.includes(category) || category === query.category,
        )}
        count={shown.length}
        onChange={change}
        isSheetOpen={isSheetOpen}
        onSheetToggle={setSheetOpen}
      />
      <div className="my-3 flex flex-wrap-reverse items-center justify-between gap-x-6 gap-y-2 md:my-4">
        <p className="flex flex-wrap items-center gap-x-2.5">
          <span
            ref={status}
            tabIndex={-1}
            role="status"
            className="text-sm font-semibold text-ink-soft outline-none!"
          >
            {shown.length === 1 ? '1 drink' : `${shown.length}${mayBeMore} drinks`}
          </span>
          <Chosen query={query} />
        </p>
        <p className="flex items-center gap-2.5 rounded-md bg-leaf-100 px-3 py-1.5 text-xs font-semibold text-leaf-900 max-sm:w-full md:text-sm">
          <Icon name="truck" className="size-4.5" />
          {deliveryFee > 0
            ? `${formatKes(deliveryFee)} delivery fee applies to all orders`
            : 'Free delivery on all orders'}
        </p>
      </div>
      {isAnswered && correction && wanted !== '' ? (
        <p className="mb-4 text-lg">
          Did you mean{' '}
          <Link
            to={pathOf({ ...query, search: correction })}
            className="font-bold text-leaf-700 underline underline-offset-4 hover:text-leaf-800"
          >
            {correction}
          </Link>
          ?
        </p>
      ) : null}
      {shown.length > 0 ? (
        <div aria-busy={!isAnswered || undefined}>
          {query.sort === 'brand' || query.sort === 'flavor' ? (
            <Groups products={shown} by={query.sort} />
          ) : (
            <>
              <h2 className="sr-only">Products</h2>
              <Cards products={shown} />
            </>
          )}
        </div>
      ) : (
        <NothingFound
          others={products}
          search={wanted}
          // It goes with the words around it: the focus moves to the number of drinks.
          onShowAll={() => status.current?.focus({ preventScroll: true })}
        />
      )}
    </>
  );
}

/** What the list is narrowed to, where the fields that say so are in the sheet. */
function Chosen({ query }: { query: CatalogueQuery }) {
  return (['category', 'brand'] as const).map((field) =>
    query[field] ? (
      <Link
        key={field}
        to={pathOf({ ...query, [field]: null })}
        replace
        preventScrollReset
        className="inline-flex min-h-9 items-center gap-1.5 rounded-pill border border-line-strong px-3 text-sm font-semibold md:hidden"
      >
        <span className="sr-only">Remove filter </span>
        {query[field]}
        <Icon name="close" className="size-3.5" />
      </Link>
    ) : null,
  );
}

/** @param after how many cards come before these */
function Cards({ products, after = 0 }: { products: Products; after?: number }) {
  return (
    <ProductGrid className="lg:grid-cols-4">
      {products.map((product, index) => (
        <li key={product.slug} className={after + index < 6 ? '' : 'product-below'}>
          <ProductCard product={product} isFirst={after + index < 2} sizes={fourColumns} />
        </li>
      ))}
    </ProductGrid>
  );
}

const groupSizes =
  '(min-width: 1248px) 271px, (min-width: 1024px) calc(23vw - 21px), (min-width: 768px) calc(30.7vw - 19px), 44vw';

/** The brands or the flavours, each under its name: on phones one row to swipe, the name beside its drinks on desktops. */
function Groups({ products, by }: { products: Products; by: 'brand' | 'flavor' }) {
  const id = useId();
  return (
    <div className="grid gap-10 md:gap-14">
      {groupProducts(products, by).map(({ name, products: members }, place) => (
        <section
          key={name}
          aria-labelledby={`${id}-${place}`}
          className="grid min-w-0 gap-x-7 gap-y-3 lg:grid-cols-[1fr_3fr]"
        >
          <header className="flex items-baseline justify-between gap-4 lg:sticky lg:top-24 lg:flex-col lg:justify-start lg:gap-1 lg:self-start">
            <h2 id={`${id}-${place}`} className="flex items-center gap-3 text-3xl font-extrabold">
              {by === 'flavor' && name ? <FlavourDot category={name} className="size-5" /> : null}
              {name ?? 'More drinks'}
            </h2>
            <p className="shrink-0 text-sm text-ink-soft">
              {members.length === 1 ? '1 drink' : `${members.length} drinks`}
            </p>
          </header>
          <ul className="bleed -mx-[clamp(1rem,4vw,2.5rem)] grid snap-x auto-cols-[44%] grid-flow-col gap-3 overflow-x-auto overscroll-x-contain [scrollbar-width:none] sm:auto-cols-[30%] sm:gap-5 md:mx-0 md:grid-flow-row md:grid-cols-3 md:gap-x-7 md:gap-y-11 md:overflow-visible md:px-0">
            {members.map((product, index) => (
              <li key={product.slug} className={`snap-start ${place < 2 ? '' : 'product-below'}`}>
                <ProductCard product={product} isFirst={place === 0 && index < 2} sizes={groupSizes} />
              </li>
            ))}
          </ul>
        </section>
      ))}
    </div>
  );
}

// An empty result goes without where it does not come.
const SearchHint = lazy(() => import('./search-hint.tsx').catch(() => ({ default: () => null })));

const othersCount = 4;

/** A few drinks to go on with: in stock, the newest, of different flavours first. */
function othersOf(products: Products): Products {
  const inStock = products.filter(({ stock_quantity }) => stock_quantity > 0);
  const first = new Map(inStock.map((product) => [product.category, product] as const).reverse());
  return [...new Set([...[...first.values()].reverse(), ...inStock])].slice(0, othersCount);
}

interface NothingFoundProps {
  others: Products;
  search: string;
  onShowAll: () => void;
}

function NothingFound({ others, search, onShowAll }: NothingFoundProps) {
  return (
    <>
      <div className="grid justify-items-center gap-2 rounded-2xl bg-paper-deep px-6 py-8 text-center md:py-12">
        <p aria-hidden="true" className="text-5xl">
          🧃
        </p>
        <h2 className="text-3xl">No products found</h2>
        <p className="text-ink-soft">Try adjusting your search or filter criteria</p>
        <Suspense fallback={null}>
          <SearchHint search={search} onSortByPrice={onShowAll} />
        </Suspense>
        <Link to="/shop" onClick={onShowAll} className={`${buttonStyle('outline')} mt-2`}>
          Show everything
        </Link>
      </div>
      <section aria-labelledby="others" className="pt-10">
        <h2 id="others" className="mb-5 text-2xl font-extrabold">
          How about one of these?
        </h2>
        <Cards products={othersOf(others)} />
      </section>
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
