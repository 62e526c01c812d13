// The product list: search, brand, flavour, sort. The server searches. Up to 60 products are all sent to the browser,
// which filters and sorts them; longer lists come from the server in pages.
import { lazy, Suspense, useEffect, useMemo, useRef, useState } from 'react';
import { data, Link, redirect, type ShouldRevalidateFunctionArgs, useSearchParams } from 'react-router';
import { categoriesTag, productsTag, synonymsTag } from '../../../domain/cache-tags.ts';
import { formatCount } from '../../../domain/count.ts';
import {
  type CatalogueQuery,
  groupProducts,
  type ListOrder,
  pageNumberIn,
  readCatalogueQuery,
  searchByWords,
  selectProducts,
  writeCatalogueQuery,
} from '../../../domain/products/catalogue.ts';
import { readAreas } from '../../lib/delivery-areas.ts';
import { describeFee } from '../../lib/fee-words.ts';
import { areProducts, shownProducts } from '../../lib/listed-products.ts';
import { shopContext } from '../../lib/shop-context.ts';
import { defaultShopSettings, readShopSettings } from '../../lib/shop-settings.ts';
import { buttonStyle } from '../../ui/button.tsx';
import { Icon } from '../../ui/icons.tsx';
import { describeBreadcrumbs } from '../discovery/breadcrumbs.ts';
import { DataBlock } from '../discovery/data-block.tsx';
import { LastOrderSlot } from '../last-order/last-order-slot.tsx';
import { describePage } from '../layout/page-meta.ts';
import { useShop } from '../layout/use-shop.ts';
import { type CardProduct, ProductCard, ProductGrid } from '../product/product-card.tsx';
import type { Route } from './+types/shop-page.ts';
import { CatalogueForm } from './catalogue-form.tsx';
import type { ProductGroupsProps } from './product-groups.tsx';
import type { ShopList } from './shop-list.ts';
import { useCatalogueQuery } from './use-catalogue-query.ts';

const queryOf = (search: string) => readCatalogueQuery(new URLSearchParams(search));

const titles: Partial<Record<ListOrder, string>> = { brand: 'Shop by brand', flavor: 'Shop by flavor' };
const longestTitle = 40;
const titleOf = ({ search, brand, category, sort }: CatalogueQuery) => {
  const text = search.trim();
  if (text) return text.length > longestTitle ? `“${text.slice(0, longestTitle).trim()}…”` : `“${text}”`;
  const chosen = [brand, category].filter(Boolean).join(' ');
  return chosen || (titles[sort] ?? 'Shop all drinks');
};

const pathOf = (query: CatalogueQuery, page = 1) => {
  const parameters = writeCatalogueQuery(query, page).toString();
  return parameters ? `/shop?${parameters}` : '/shop';
};

/** A flavor or a brand has a page of its own; searches, other filters and sorts show parts of the same list. */
function canonicalPath(query: CatalogueQuery, page: number, list: Slugs | null): string {
  const { search, brand, category } = query;
  const ofPage = page > 1 ? `?page=${page}` : '';
  const [flavorSlug, brandSlug] = [list?.category_slugs[category ?? ''], list?.brand_slugs[brand ?? '']];
  if (!search.trim() && flavorSlug && !brand) return `/flavors/${flavorSlug}${ofPage}`;
  if (!search.trim() && brandSlug && !category) return `/brands/${brandSlug}${ofPage}`;
  return writeCatalogueQuery(query).size > 0 ? '/shop' : pathOf(query, page);
}

type Slugs = Pick<ShopList, 'category_slugs' | 'brand_slugs'>;

export const meta: Route.MetaFunction = ({ matches, location, loaderData }) => {
  const query = queryOf(location.search);
  const { page, pages } = loaderData?.list ?? { page: 1, pages: 1 };
  const ofPage = page > 1 ? `, page ${page}` : '';
  return describePage(matches, {
    title: `${titleOf(query)}${ofPage}`,
    description:
      'Every bottle, can and flask: nine flavors of khat-based juice and energy drinks. Filter by brand and flavor, order without an account.',
    path: canonicalPath(query, page, loaderData?.list ?? null),
    neighbours: {
      prev: page > 1 ? pathOf(query, page - 1) : null,
      next: page < pages ? pathOf(query, page + 1) : null,
    },
  });
};

export async function loader({ context, request }: Route.LoaderArgs) {
  const shop = context.get(shopContext);
  const { store, addCacheTags } = shop;
  const parameters = new URL(request.url).searchParams;
  const query = readCatalogueQuery(parameters);
  const { brand, category, sort } = query;
  const [search, page] = [query.search.trim(), pageNumberIn(parameters)];
  addCacheTags(productsTag, categoriesTag, ...(search ? [synonymsTag] : []));
  const [answer, areas, { data: settings }] = await Promise.all([
    // Not in the query string: there a text such as "eq.x" would be a filter.
    store.tables.rpc('shop_page', {
      search,
      sort,
      page,
      ...(brand ? { brand } : {}),
      ...(category ? { category } : {}),
    }),
    readAreas(shop),
    readShopSettings(store),
  ]);
  const list = answer.data as unknown as ShopList | null;
  // The page shows its own error message.
  if (answer.error || !list || !areProducts(list.products))
    return data({ query, list: null, fee: '' }, { status: 503 });
  if (page > (list.pages ?? 1) || (page > 1 && list.is_whole)) throw redirect(pathOf(query));
  return {
    query: { ...query, search },
    list: { ...list, products: shownProducts(list.products, shop), page },
    fee: describeFee(areas, (settings ?? defaultShopSettings).delivery_fee).banner,
  };
}

/** Whether the browser has every product: then only another search text needs a request. */
let hasWholeList = true;

export function shouldRevalidate({
  currentUrl,
  nextUrl,
  defaultShouldRevalidate,
}: ShouldRevalidateFunctionArgs) {
  if (currentUrl.pathname !== nextUrl.pathname || currentUrl.search === nextUrl.search)
    return defaultShouldRevalidate;
  const [before, after] = [queryOf(currentUrl.search), queryOf(nextUrl.search)];
  if (!hasWholeList) return navigator.onLine || pageNumberIn(nextUrl.searchParams) > 1;
  const search = after.search.trim();
  return search !== '' && search !== before.search.trim() && navigator.onLine;
}

export default function ShopPage({ loaderData }: Route.ComponentProps) {
  const { query, list, fee } = loaderData;
  return (
    <Frame>
      {list === null ? (
        <LoadError />
      ) : list.products.length > 0 ? (
        <Catalogue list={list} loadedQuery={query} fee={fee} />
      ) : (
        <EmptyShop />
      )}
    </Frame>
  );
}

/** A list that cannot be fetched has the same error message as one that the database does not return. */
export function ErrorBoundary({ error }: Route.ErrorBoundaryProps) {
  // Other errors are for the layout, for example if the page is cached for offline reading.
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
      <DataBlock data={import.meta.env.SSR ? [describeBreadcrumbs(config.publicUrl, trail)] : null} />
      {children}
    </>
  );
}

/** What the list shows, with its form: low, so that drinks and prices are on the first screen. */
function Band({ about, children }: { about?: React.ReactNode; children?: React.ReactNode }) {
  const [parameters] = useSearchParams();
  return (
    <header className="on-dusk bg-[linear-gradient(100deg,var(--color-dusk-950),var(--color-dusk-800)_55%,var(--color-afterglow-far))] text-white">
      <div className="page grid gap-x-3 gap-y-2 py-3 md:grid-cols-[minmax(0,1fr)_11rem_13rem] md:items-center lg:grid-cols-[auto_minmax(0,1fr)_11rem_13rem]">
        <div className="min-w-0 md:max-lg:col-span-full lg:mr-4 lg:max-w-120">
          <h1 className="text-3xl font-extrabold wrap-anywhere">{titleOf(readCatalogueQuery(parameters))}</h1>
          {about}
        </div>
        {children}
      </div>
    </header>
  );
}

type Products = CardProduct[];
type List = NonNullable<Route.ComponentProps['loaderData']['list']>;

interface CatalogueProps {
  list: List;
  /** The result of `list`. */
  loadedQuery: CatalogueQuery;
  /** The delivery fee in words. */
  fee: string;
}

const isOffline = () => typeof navigator !== 'undefined' && !navigator.onLine;
const isSame = (a: CatalogueQuery, b: CatalogueQuery) => pathOf(a) === pathOf(b);

function Catalogue({ list, loadedQuery, fee }: CatalogueProps) {
  const [isSheetOpen, setSheetOpen] = useState(false);
  const { query, change, formKey } = useCatalogueQuery(isSheetOpen);
  const status = useRef<HTMLParagraphElement>(null);
  const { first, products } = useShownPages(list, loadedQuery);
  useEffect(() => {
    hasWholeList = list.is_whole;
  }, [list.is_whole]);
  const searchText = query.search.trim();
  const isAnswered = list.is_whole ? searchText === loadedQuery.search : isSame(query, loadedQuery);
  const isWithoutServer = !isAnswered && isOffline();
  const bySearch = () =>
    searchText === '' ? null : isWithoutServer ? searchByWords(products, searchText) : list.found;
  // Shows the previous list until the response arrives.
  const isFilteredHere = list.is_whole || isWithoutServer;
  const visibleProducts = isFilteredHere
    ? selectProducts(products, query, bySearch())
    : list.count > 0
      ? products
      : [];
  const count = isFilteredHere ? visibleProducts.length : list.count;
  const mayBeMore = !isFilteredHere && list.may_be_more ? '+' : '';

  return (
    <>
      <Band
        about={
          <p className="flex flex-wrap gap-x-3 text-xs font-semibold text-dusk-100">
            <span ref={status} tabIndex={-1} role="status" className="outline-none!">
              {count === 1 ? '1 drink' : `${formatCount(count)}${mayBeMore} drinks`}
            </span>
            <span>{fee}</span>
          </p>
        }
      >
        <CatalogueForm
          key={formKey}
          query={query}
          brands={list.brands}
          // A flavour chosen by an old link is shown as chosen, even if it is no longer offered.
          categories={
            query.category && !list.categories.includes(query.category)
              ? [...list.categories, query.category].sort()
              : list.categories
          }
          count={count}
          onChange={change}
          isSheetOpen={isSheetOpen}
          onSheetToggle={setSheetOpen}
        />
      </Band>
      <div className="page pt-3.5 md:pt-5">
        <LastOrderSlot className="not-empty:mb-4 in-data-[orders]:mb-4" />
        <Chosen query={query} />
        {isAnswered && list.correction && searchText !== '' ? (
          <p className="mb-4 text-lg">
            Did you mean{' '}
            <Link
              to={pathOf({ ...query, search: list.correction })}
              className="font-bold text-leaf-700 underline underline-offset-4 hover:text-leaf-800"
            >
              {list.correction}
            </Link>
            ?
          </p>
        ) : null}
        {/* A price has a digit. Some questions find drinks, too. */}
        {visibleProducts.length > 0 && isAnswered && /\d|deliver|how|where|pay/i.test(searchText) ? (
          <Suspense fallback={null}>
            <SearchHint
              search={searchText}
              mostCents={list.most_cents}
              isMet={visibleProducts.some(({ price }) => price <= (list.most_cents ?? 0))}
              byPrice={query.sort === 'price' ? null : pathOf({ ...query, sort: 'price' })}
              onSortByPrice={() => status.current?.focus({ preventScroll: true })}
            />
          </Suspense>
        ) : null}
        {visibleProducts.length > 0 ? (
          <div aria-busy={!isAnswered || undefined}>
            <Suspense fallback={<Cards products={visibleProducts} />}>
              {query.sort === 'brand' || query.sort === 'flavor' ? (
                <Groups
                  groups={groupProducts(visibleProducts, query.sort)}
                  by={query.sort}
                  slugs={query.sort === 'brand' ? list.brand_slugs : list.category_slugs}
                  isWhole={isFilteredHere}
                />
              ) : (
                <>
                  <h2 className="sr-only">Products</h2>
                  <Cards products={visibleProducts} />
                </>
              )}
            </Suspense>
            {isFilteredHere || list.pages === 1 ? null : (
              <Suspense fallback={null}>
                <Pages
                  list={list}
                  pathOf={(page) => pathOf(loadedQuery, page)}
                  first={first}
                  shownCount={visibleProducts.length}
                />
              </Suspense>
            )}
          </div>
        ) : (
          <Suspense fallback={<NothingFoundTitle />}>
            <NothingFound
              products={products}
              search={searchText}
              // The link disappears together with its sentence: focus moves to the number of drinks.
              onShowAll={() => status.current?.focus({ preventScroll: true })}
            />
          </Suspense>
        )}
      </div>
    </>
  );
}

interface ShownPages {
  query: string;
  /** The first page of the list. */
  first: number;
  pages: Products[];
}

/** The pages added by "Show more" in this document: Back shows them again. */
let shownBefore: ShownPages | null = null;

/** A page of a list after the pages that it was added to. */
function useShownPages(list: List, loadedQuery: CatalogueQuery): { first: number; products: Products } {
  const shownPages = useMemo(() => {
    const query = pathOf(loadedQuery);
    const before = shownBefore;
    const isNext =
      !list.is_whole &&
      before?.query === query &&
      list.page >= before.first &&
      list.page <= before.first + before.pages.length;
    const first = isNext ? before.first : list.page;
    const earlier = isNext ? before.pages.slice(0, list.page - first) : [];
    return { query, first, pages: [...earlier, list.products] };
  }, [list, loadedQuery]);
  useEffect(() => {
    shownBefore = shownPages;
  }, [shownPages]);
  // A product that was added in the meantime moves others to the next page.
  const products = [...new Map(shownPages.pages.flat().map((product) => [product.slug, product])).values()];
  return { first: shownPages.first, products };
}

/** The active filters, for when their fields are in the closed sheet. */
function Chosen({ query }: { query: CatalogueQuery }) {
  const fields = (['category', 'brand'] as const).filter((field) => query[field]);
  return fields.length > 0 ? (
    <p className="mb-3 flex flex-wrap gap-2 md:hidden">
      {fields.map((field) => (
        <Link
          key={field}
          to={pathOf({ ...query, [field]: null })}
          replace
          preventScrollReset
          className="inline-flex min-h-9 items-center gap-1.5 rounded-pill border border-line-strong px-3 text-sm font-semibold"
        >
          <span className="sr-only">Remove filter </span>
          {query[field]}
          <Icon name="close" className="size-3.5" />
        </Link>
      ))}
    </p>
  ) : null;
}

// If the code does not load, the search has no hint.
const SearchHint = lazy(() => import('./search-hint.tsx').catch(() => ({ default: () => null })));

// Loaded on use: until then, the list is shown without groups.
const Groups = lazy(() =>
  import('./product-groups.tsx').catch(() => ({
    default: ({ groups }: ProductGroupsProps) => (
      <Cards products={groups.flatMap(({ products }) => products)} />
    ),
  })),
);
const Pages = lazy(() => import('./list-pages.tsx').catch(() => ({ default: () => <></> })));

function Cards({ products }: { products: CardProduct[] }) {
  return (
    <ProductGrid className="lg:grid-cols-4 xl:grid-cols-5">
      {products.map((product, index) => (
        <li key={product.slug} className={index < 8 ? '' : 'far-below product-below'}>
          <ProductCard product={product} isFirst={index < 2} />
        </li>
      ))}
    </ProductGrid>
  );
}

const NothingFound = lazy(() => import('./nothing-found.tsx').catch(() => ({ default: NothingFoundTitle })));

/** Until the code of `NothingFound` has loaded, and offline. */
function NothingFoundTitle() {
  return <h2 className="py-8 text-center text-3xl md:py-12">No products found</h2>;
}

/** Instead of a list. */
function Message({ role, children }: { role?: 'alert'; children: React.ReactNode }) {
  return (
    <>
      <Band />
      <div className="page pt-5">
        <div
          role={role}
          className="grid justify-items-center gap-3 rounded-2xl bg-card px-6 py-20 text-center shadow-lg"
        >
          {children}
        </div>
      </div>
    </>
  );
}

/** An empty shop: nothing to search either. */
function EmptyShop() {
  return (
    <Message>
      <h2 className="text-3xl">No products found</h2>
      <p className="text-ink-soft">Our fridge is being filled. Please look in again soon.</p>
      <Link to="/contact" className={`${buttonStyle('outline')} mt-3`}>
        Contact Us
      </Link>
    </Message>
  );
}

function LoadError() {
  return (
    <Message role="alert">
      <h2 className="text-3xl">Error Loading Products</h2>
      <p className="text-ink-soft">Please try again later.</p>
      <a href="/shop" className={`${buttonStyle('outline')} mt-3`}>
        Try again
      </a>
    </Message>
  );
}
