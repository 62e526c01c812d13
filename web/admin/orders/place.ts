// Where an order goes, and what is in it, in the few words a row has room for.

interface Place {
  shipping_address: string;
  city: string;
}

/** The city of nearly every order: named only where it is another one. */
const usualCity = 'Nairobi';

export const otherCity = ({ city }: Place): string | null => (city && city !== usualCity ? city : null);

/** The place without building and unit, which say nothing to a map either. */
export const placeOf = ({ shipping_address }: Place): string =>
  shipping_address.split(/, (?:Building|Unit): /)[0] ?? shipping_address;

/** The place, and the city where it is not the usual one. */
export const areaOf = (order: Place): string => [placeOf(order), otherCity(order)].filter(Boolean).join(', ');

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
