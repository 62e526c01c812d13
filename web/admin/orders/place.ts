// Short texts for an order's items, for a row. Those that notices contain, too, are shared with the server.

export { areaOf, drinkAndBrand, otherCity, placeOf } from '../../../domain/orders/order-summary.ts';

interface Item {
  quantity: number;
  product_name: string;
}

export const drinksOf = (items: readonly Item[]): string =>
  items.map(({ quantity, product_name }) => `${quantity} × ${product_name || 'Product'}`).join(', ');

export function unitsOf(items: readonly Item[]): string {
  const units = items.reduce((sum, { quantity }) => sum + quantity, 0);
  return `${units} ${units === 1 ? 'item' : 'items'}`;
}
