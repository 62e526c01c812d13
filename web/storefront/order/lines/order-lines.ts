// The drinks of an order form.

import { isAllowedImageUrl } from '../../../../domain/products/product-image.ts';
import { maxDrinks } from '../../../lib/orders/order-contents.ts';

export interface OrderedProduct {
  id: string;
  /** The slug of its page. */
  slug: string;
  name: string;
  /** Cents. */
  price: number;
  image_url: string | null;
  stock_quantity: number;
  category?: string | null;
  brand?: string | null;
}

export interface OrderLine {
  product: OrderedProduct;
  quantity: number;
}

export const quantityIn = (lines: readonly OrderLine[], id: string): number =>
  lines.find(({ product }) => product.id === id)?.quantity ?? 0;

/** The lines with another quantity of a product: a new one is the last line, 0 removes it. */
export function withQuantity(
  lines: readonly OrderLine[],
  product: OrderedProduct,
  quantity: number,
): OrderLine[] {
  if (quantity < 1) return lines.filter((line) => line.product.id !== product.id);
  return lines.some((line) => line.product.id === product.id)
    ? lines.map((line) => (line.product.id === product.id ? { ...line, quantity } : line))
    : [...lines, { product, quantity }];
}

/** Such as `3 drinks`. */
export const describeUnits = (lines: readonly OrderLine[]): string => {
  const units = lines.reduce((sum, { quantity }) => sum + quantity, 0);
  return units === 1 ? '1 drink' : `${units} drinks`;
};

export interface Stock {
  unitsLeft: number;
  /** Whether the shop has stopped selling it. */
  isOff: boolean;
}

export type LineProblem =
  /** The shop has stopped selling it. */
  { kind: 'off' } | { kind: 'sold_out' } | { kind: 'too_many'; left: number };

/** Whether no quantity of it can be ordered. */
export const isGone = (problem: LineProblem | null): boolean =>
  problem !== null && problem.kind !== 'too_many';

/** Why a line cannot be ordered; null if it can. */
export function problemOfLine(quantity: number, { unitsLeft, isOff }: Stock): LineProblem | null {
  if (isOff) return { kind: 'off' };
  if (unitsLeft < 1) return { kind: 'sold_out' };
  return quantity > unitsLeft ? { kind: 'too_many', left: unitsLeft } : null;
}

/** Reads a product from an answer or from what was stored; null for anything else. */
export function readProduct(value: unknown): OrderedProduct | null {
  if (typeof value !== 'object' || value === null) return null;
  const { id, slug, name, price, image_url, stock_quantity, category, brand } = value as Record<
    string,
    unknown
  >;
  if (typeof id !== 'string' || typeof slug !== 'string' || typeof name !== 'string') return null;
  if (!Number.isSafeInteger(price) || !Number.isSafeInteger(stock_quantity)) return null;
  return {
    id,
    slug,
    name,
    price: Number(price),
    stock_quantity: Number(stock_quantity),
    image_url: typeof image_url === 'string' && isAllowedImageUrl(image_url) ? image_url : null,
    category: typeof category === 'string' ? category : null,
    brand: typeof brand === 'string' ? brand : null,
  };
}

/** Reads lines that were stored; the others are left out. */
export function readLines(stored: unknown): OrderLine[] {
  if (!Array.isArray(stored)) return [];
  return stored
    .flatMap((line) => {
      const product = readProduct(line?.product);
      const { quantity } = (line ?? {}) as { quantity?: unknown };
      return product && Number.isSafeInteger(quantity) && Number(quantity) >= 1
        ? [{ product, quantity: Number(quantity) }]
        : [];
    })
    .slice(0, maxDrinks);
}
