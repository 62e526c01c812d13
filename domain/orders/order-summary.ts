// Short texts for an order's address and drinks: rows of staff lists, and notices.

interface Place {
  shipping_address: string;
  city: string;
}

/** The city of nearly every order: shown only if it is another one. */
const usualCity = 'Nairobi';

export const otherCity = ({ city }: Place): string | null => (city && city !== usualCity ? city : null);

/** The address without building and unit, which maps cannot find. */
export const placeOf = ({ shipping_address }: Place): string =>
  shipping_address.split(/, (?:Building|Unit): /)[0] ?? shipping_address;

/** The address, and the city if it is not the usual one. */
export const areaOf = (order: Place): string => [placeOf(order), otherCity(order)].filter(Boolean).join(', ');

interface Drink {
  product_name: string;
  /** Null once it is deleted. */
  product: { brand: string | null } | null;
}

/** A drink's name without its brand, which most names begin with, and the brand. */
export function drinkAndBrand({ product_name, product }: Drink): [drink: string, brand: string | null] {
  const name = product_name || 'Product';
  const brand = product?.brand;
  const drink = brand && name.startsWith(`${brand} `) ? name.slice(brand.length).trim() : '';
  return drink && brand ? [drink, brand] : [name, null];
}
