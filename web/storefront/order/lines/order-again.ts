// Orders the drinks of an earlier order again: those that can still be ordered.
import { createStore, type StoreAddress } from '../../../../supabase/store.ts';
import { tabStorage } from '../../../lib/browser/browser-storage.ts';
import type { OrderedDrink } from '../../../lib/orders/remembered-orders.ts';
import { type StoredDrinks, storeDrinks } from '../form/order-memory.ts';
import { drinksBySlug } from './find-drinks.ts';
import type { OrderedProduct } from './order-lines.ts';

/** How long a tap on "Order again" waits for the drinks, in ms. */
const timeoutMs = 8000;

/** The drinks that can be ordered, in the same order, and the names of the others. */
export function sortOrderable(
  drinks: readonly OrderedDrink[],
  products: readonly OrderedProduct[],
): StoredDrinks {
  const sorted: StoredDrinks = { lines: [], missing: [] };
  for (const { slug, name, quantity } of drinks) {
    const product = products.find((known) => known.slug === slug && known.stock_quantity > 0);
    if (product) sorted.lines.push({ product, quantity });
    else sorted.missing.push(name);
  }
  return sorted;
}

/** @returns all of them as missing if there is no answer; does not throw */
export async function findDrinksAgain(
  address: StoreAddress,
  drinks: readonly OrderedDrink[],
): Promise<StoredDrinks> {
  const slugs = drinks.map(({ slug }) => slug);
  const products = await drinksBySlug(
    createStore(address).tables,
    slugs,
    AbortSignal.timeout(timeoutMs),
  ).catch((error: unknown) => {
    console.warn('The drinks could not be loaded', error);
    return [];
  });
  return sortOrderable(drinks, products);
}

/**
 * Prepares the order form of this tab.
 * @returns the drink on whose page the form opens: the first that can be ordered, else the first
 */
export async function prepareOrderAgain(
  address: StoreAddress,
  drinks: readonly [OrderedDrink, ...OrderedDrink[]],
): Promise<OrderedDrink> {
  const { lines, missing } = await findDrinksAgain(address, drinks);
  const [first] = lines;
  if (!first) {
    // The page of that drink says why.
    storeDrinks(tabStorage(), null);
    return drinks[0];
  }
  storeDrinks(tabStorage(), { lines, missing });
  return { slug: first.product.slug, name: first.product.name, quantity: first.quantity };
}
