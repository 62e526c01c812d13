// Reads lists of products.
import type { ShopContext } from './shop-context.ts';

/** The units that can be ordered now, and until when staff have set the product to sold out. */
export const stockColumns = 'stock_quantity:units_for_sale, sold_out_until';

/**
 * Products as a page shows them: it is cached until the first of them can be ordered again.
 * @param products with `stockColumns`
 */
export function shownProducts<Product extends { sold_out_until: string | null }>(
  products: readonly Product[],
  { cacheUntil }: Pick<ShopContext, 'cacheUntil'>,
): Omit<Product, 'sold_out_until'>[] {
  return products.map(({ sold_out_until, ...product }) => {
    cacheUntil(sold_out_until);
    return product;
  });
}

// A proxy in front of the tables may answer 200 with another body.
/** @param answer result of a query of products, of any type */
export const areProducts = (answer: unknown): boolean =>
  Array.isArray(answer) && answer.every((row) => typeof row?.slug === 'string');
