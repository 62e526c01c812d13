// Title and description of a product's page. A module of its own: the product page loads no other texts.
import { formatKsh } from '../../../domain/money.ts';

export interface TitledProduct {
  name: string;
  tagline: string | null;
  /** Such as "500 ml"; null when it is not known. */
  size: string | null;
  /** Cents. */
  price: number;
}

/** The title of a product's page, without the shop's name. */
export const productTitle = ({ name, size, price }: TitledProduct): string =>
  `${name}${size ? `, ${size},` : ''} for ${formatKsh(price)} in Nairobi`;

/** The description of a product's page. */
export function productDescription({ name, tagline, size, price }: TitledProduct): string {
  const first = (tagline?.trim() || name).replace(/[.!]$/, '');
  return `${first}. ${size ? `${size} for ` : ''}${formatKsh(price)}, delivered ice-cold in Nairobi in 15-60 minutes. Order without an account, pay by M-PESA.`;
}
