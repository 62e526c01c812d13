// Drinks for the order form: suggestions, matches of a text, and those of an earlier order.
import type { Store } from '../../../../supabase/store.ts';
import { type OrderedProduct, readProduct } from './order-lines.ts';

type Tables = Store['tables'];

const columns = 'id, slug, name, price, image_url, category, brand, stock_quantity:units_for_sale' as const;
const maxRecent = 6;
const maxOthers = 8;
const maxFound = 20;

export interface DrinkGroup {
  title: string;
  drinks: OrderedProduct[];
}

/** @throws the error of a request without an answer */
function read({ data, error }: { data: unknown; error: unknown }): OrderedProduct[] {
  if (error || !Array.isArray(data)) throw error ?? new Error('The products could not be read');
  return data.flatMap((row) => readProduct(row) ?? []);
}

/**
 * Drinks that can be ordered: those of earlier orders, of a brand, and the newest. Each in one group.
 * @param recent slugs of earlier orders, the latest first
 * @param without ids that are not suggested
 */
export async function suggestDrinks(
  tables: Tables,
  { recent, brand, without }: { recent: readonly string[]; brand: string | null; without: readonly string[] },
  signal?: AbortSignal,
): Promise<DrinkGroup[]> {
  const inStock = () => {
    const query = tables.from('products').select(columns).eq('is_active', true).gt('units_for_sale', 0);
    return signal ? query.abortSignal(signal) : query;
  };
  const newest = () => inStock().order('created_at', { ascending: false }).limit(maxOthers);
  const slugs = [...new Set(recent)].slice(0, maxRecent);
  const [ordered, ofBrand, others] = await Promise.all([
    slugs.length > 0 ? inStock().in('slug', slugs).then(read) : [],
    brand ? newest().eq('brand', brand).then(read) : [],
    newest().then(read),
  ]);
  ordered.sort((one, other) => slugs.indexOf(one.slug) - slugs.indexOf(other.slug));
  const seen = new Set(without);
  const take = (drinks: readonly OrderedProduct[]) =>
    drinks.filter(({ id }) => !seen.has(id) && Boolean(seen.add(id)));
  return [
    { title: 'You ordered before', drinks: take(ordered) },
    { title: `More from ${brand}`, drinks: take(ofBrand) },
    { title: 'New at the shop', drinks: take(others) },
  ].filter(({ drinks }) => drinks.length > 0);
}

/** The drinks in stock that match a text, best first. */
export async function searchDrinks(
  tables: Tables,
  search: string,
  signal?: AbortSignal,
): Promise<OrderedProduct[]> {
  // Not in the query string: there a text such as "eq.x" would be a filter.
  const query = tables.rpc('search_products', { search, page_size: maxFound }).select(columns);
  return read(await (signal ? query.abortSignal(signal) : query)).filter(
    ({ stock_quantity }) => stock_quantity > 0,
  );
}

/** The products with these slugs that the shop sells, also those that are sold out. */
export async function drinksBySlug(
  tables: Tables,
  slugs: readonly string[],
  signal: AbortSignal,
): Promise<OrderedProduct[]> {
  const answer = tables.from('products').select(columns).in('slug', slugs).eq('is_active', true);
  return read(await answer.abortSignal(signal));
}

const uuid = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i;

/**
 * The products with these ids that the shop sells, also those that are sold out.
 * @throws the error of a request without an answer
 */
export async function drinksById(tables: Tables, ids: readonly string[]): Promise<OrderedProduct[]> {
  return read(
    await tables
      .from('products')
      .select(columns)
      .in(
        'id',
        ids.filter((id) => uuid.test(id)),
      )
      .eq('is_active', true),
  );
}
