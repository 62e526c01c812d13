// How the shop's list is searched, filtered and sorted.

export interface CatalogueEntry {
  name: string;
  tagline: string | null;
  description: string | null;
  category: string | null;
  brand: string | null;
  price: number;
  created_at: string;
}

export const sortOrders = ['popularity', 'brand', 'flavor', 'price'] as const;
export type SortOrder = (typeof sortOrders)[number];

export interface CatalogueQuery {
  search: string;
  /** A brand, or null for all. */
  brand: string | null;
  /** A category, or null for all. */
  category: string | null;
  sort: SortOrder;
}

// Made when somebody sorts by a name: a phone takes longer for it than for drawing the page.
let collator: Intl.Collator | undefined;
function byName(a: string | null, b: string | null): number {
  collator ??= new Intl.Collator('en', { sensitivity: 'base' });
  // What has none comes last.
  return collator.compare(a ?? '\uffff', b ?? '\uffff');
}
const comparisons: Record<SortOrder, (a: CatalogueEntry, b: CatalogueEntry) => number> = {
  popularity: (a, b) => Number(b.created_at > a.created_at) - Number(b.created_at < a.created_at),
  brand: (a, b) => byName(a.brand, b.brand),
  flavor: (a, b) => byName(a.category, b.category),
  price: (a, b) => a.price - b.price,
};

/**
 * The products that match, in order (specification §2, Shop). Equal ones keep the order they came in.
 * @param products as the server lists them
 * @param query search is trimmed and compared without regard to case, in name, tagline, description, brand and flavour
 */
export function selectProducts<Entry extends CatalogueEntry>(
  products: readonly Entry[],
  query: CatalogueQuery,
): Entry[] {
  const search = query.search.trim().toLocaleLowerCase('en');
  return products
    .filter(
      (product) =>
        (!query.brand || product.brand === query.brand) &&
        (!query.category || product.category === query.category) &&
        (!search ||
          [product.name, product.tagline, product.description, product.brand, product.category].some((text) =>
            text?.toLocaleLowerCase('en').includes(search),
          )),
    )
    .sort(comparisons[query.sort]);
}

/** Characters of a search text. */
const maxSearchLength = 100;

/**
 * The search text of a URL, cut to the length that the form takes.
 * @returns well-formed text; '' when there is none
 */
export function searchIn(parameters: URLSearchParams): string {
  const search = parameters.get('search') ?? '';
  // Not through the middle of a surrogate pair.
  return search.length <= maxSearchLength
    ? search
    : search.slice(0, maxSearchLength).replace(/[\ud800-\udbff]$/, '');
}

/**
 * What the address of the shop page presets (specification §2, Shop): `search` the text, `filter` the sort.
 * The form's own fields `brand`, `category` and `sort` are read too, so that it works before scripts do.
 */
export function readCatalogueQuery(parameters: URLSearchParams): CatalogueQuery {
  const sort = parameters.get('sort') ?? parameters.get('filter');
  return {
    search: searchIn(parameters),
    brand: parameters.get('brand') || null,
    category: parameters.get('category') || null,
    sort: sortOrders.find((known) => known === sort) ?? 'popularity',
  };
}
