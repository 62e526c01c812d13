// Searching, filtering and sorting of the shop's list.

export interface CatalogueEntry {
  slug: string;
  name: string;
  tagline: string | null;
  category: string | null;
  brand: string | null;
  price: number;
}

/** The most characters of a product's slug. */
export const slugLength = 200;

/** A slug from a URL, cut just beyond the longest that a product has: the data service refuses very long values. */
export const slugForQuery = (slug: string): string => slug.slice(0, slugLength + 1);

/** Query parameters that the shop's list depends on. */
export const listParameters = ['search', 'filter', 'brand', 'category', 'sort', 'page'] as const;

export const sortOrders = ['popularity', 'brand', 'flavor', 'price'] as const;
type SortOrder = (typeof sortOrders)[number];
/** A search without a chosen sort is listed by best match. */
export type ListOrder = SortOrder | 'match';

export interface CatalogueQuery {
  search: string;
  /** A brand, or null for all. */
  brand: string | null;
  /** A category, or null for all. */
  category: string | null;
  sort: ListOrder;
}

/**
 * The order of two names, without case and accents. Without Intl, whose first use on a page takes a cheap phone 100 ms.
 * @param a a name; null, as of a product without a brand, comes last
 */
export function compareNames(a: string | null, b: string | null): number {
  const [one, other] = [plain(a), plain(b)];
  return one < other ? -1 : Number(one > other);
}

const plain = (name: string | null): string =>
  (name ?? '\uffff')
    .normalize('NFD')
    .replace(/[\u0300-\u036f]/g, '')
    .toLowerCase();

const comparisons: Record<SortOrder, (a: CatalogueEntry, b: CatalogueEntry) => number> = {
  // The server lists the newest first.
  popularity: () => 0,
  brand: (a, b) => compareNames(a.brand, b.brand),
  flavor: (a, b) => compareNames(a.category, b.category),
  price: (a, b) => a.price - b.price,
};

/**
 * Returns the matching products in order (docs/product.md#shop-page). Equal ones stay in the order of `products`.
 * @param products newest first
 * @param query its search text is ignored: `found` has its matches
 * @param found slugs that the search matches, best first; null without a search
 */
export function selectProducts<Entry extends CatalogueEntry>(
  products: readonly Entry[],
  query: CatalogueQuery,
  found: readonly string[] | null,
): Entry[] {
  const ranks = found && new Map(found.map((slug, rank) => [slug, rank]));
  const { brand, category, sort } = query;
  return products
    .filter(
      (product) =>
        (!brand || product.brand === brand) &&
        (!category || product.category === category) &&
        (!ranks || ranks.has(product.slug)),
    )
    .sort(
      sort === 'match' ? (a, b) => (ranks?.get(a.slug) ?? 0) - (ranks?.get(b.slug) ?? 0) : comparisons[sort],
    );
}

/**
 * Searches without the database, for reading offline: products that contain every word.
 * @returns their slugs
 */
export function searchByWords(products: readonly CatalogueEntry[], search: string): string[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return products.flatMap(({ slug, name, tagline, category, brand }) => {
    const text = [name, tagline, category, brand].join(' ').toLowerCase();
    return words.every((word) => text.includes(word)) ? [slug] : [];
  });
}

/**
 * Divides a sorted list into its brands or flavours.
 * @param products sorted by brand or by flavour
 * @returns name is null for products without one
 */
export function groupProducts<Entry extends CatalogueEntry>(
  products: readonly Entry[],
  by: 'brand' | 'flavor',
): { name: string | null; products: Entry[] }[] {
  const groups: { name: string | null; products: Entry[] }[] = [];
  for (const product of products) {
    const name = (by === 'brand' ? product.brand : product.category) || null;
    const last = groups.at(-1);
    if (last?.name === name) last.products.push(product);
    else groups.push({ name, products: [product] });
  }
  return groups;
}

/** Maximum characters of a search text. */
const maxSearchLength = 100;

/**
 * The search text of a URL, cut to the form's maximum length.
 * @returns well-formed text; '' when there is none
 */
export function searchIn(parameters: URLSearchParams): string {
  const search = parameters.get('search') ?? '';
  // Does not split a surrogate pair.
  return search.length <= maxSearchLength
    ? search
    : search.slice(0, maxSearchLength).replace(/[\ud800-\udbff]$/, '');
}

/** The order of a search, or of the whole list, while none is chosen. */
export const usualOrder = (search: string): ListOrder => (search.trim() ? 'match' : 'popularity');

/**
 * Reads the query from the URL of the shop page (docs/product.md#shop-page): `search` is the text, `filter` the sort.
 * The form's fields `brand`, `category` and `sort` are read too, so that it works without JavaScript.
 */
export function readCatalogueQuery(parameters: URLSearchParams): CatalogueQuery {
  const search = searchIn(parameters);
  const sort = parameters.get('sort') ?? parameters.get('filter');
  return {
    search,
    brand: parameters.get('brand') || null,
    category: parameters.get('category') || null,
    sort: sortOrders.find((order) => order === sort) ?? usualOrder(search),
  };
}

/** The page number in a URL. Default: 1, also for an invalid number. */
export const pageNumberIn = (parameters: URLSearchParams): number => numberIn(parameters, 'page') ?? 1;

/** The part of the sitemap in a URL: `/sitemap.xml?part=2`; null for the sitemap itself. */
export const sitemapPartIn = (parameters: URLSearchParams): number | null => numberIn(parameters, 'part');

/** A whole number from 1 to 999; null for anything else. */
function numberIn(parameters: URLSearchParams, name: string): number | null {
  const value = parameters.get(name) ?? '';
  return /^[1-9]\d{0,2}$/.test(value) ? Number(value) : null;
}

/** The query part of the shop page's URL for a query: the reverse of `readCatalogueQuery` and `pageNumberIn`. */
export function writeCatalogueQuery(
  { search, brand, category, sort }: CatalogueQuery,
  page = 1,
): URLSearchParams {
  const parameters = new URLSearchParams();
  if (search.trim()) parameters.set('search', search.trim());
  if (brand) parameters.set('brand', brand);
  if (category) parameters.set('category', category);
  if (sort !== usualOrder(search)) parameters.set('sort', sort);
  if (page > 1) parameters.set('page', String(page));
  return parameters;
}
