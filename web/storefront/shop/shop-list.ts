// The answer of `shop_page`.
import type { CardProduct } from '../product/product-card.tsx';

export interface ShopList {
  /** Whether `products` contains every product of the shop: the browser then filters and sorts by itself. */
  is_whole: boolean;
  /** Number of matching products. */
  count: number;
  may_be_more: boolean;
  pages: number;
  products: (CardProduct & { sold_out_until: string | null })[];
  brands: string[];
  categories: string[];
  /** Slugs of the pages of brands and flavours, by their names. */
  brand_slugs: Record<string, string>;
  category_slugs: Record<string, string>;
  /** Slugs of the complete list that match the search, best first. */
  found: string[] | null;
  correction: string | null;
  /** The highest price that the search names, in cents. */
  most_cents: number | null;
}
