// Titles and descriptions of pages of flavors and brands, as search engines and shared links show them: what it is, its price, and where it is delivered.
import { formatKsh } from '../../../domain/money.ts';

/** Search engines cut longer descriptions. */
const descriptionLength = 160;

/** Shortens a text to the length of a description, in one line, after a whole word. */
export function shortenText(text: string): string {
  const line = text.trim().replace(/\s+/g, ' ');
  if (line.length <= descriptionLength) return line;
  const cut = line.slice(0, descriptionLength - 1);
  const end = cut.lastIndexOf(' ');
  return `${(end > 0 ? cut.slice(0, end) : cut).replace(/[\s.,;:-]+$/, '')}…`;
}

export interface DescribedGroup {
  name: string;
  /** What staff wrote about it; '' for nothing. */
  text: string;
  /** Number of its drinks. */
  count: number;
  /** In cents, of the cheapest; null when it is not known. */
  lowestPrice: number | null;
}

/** The title of the page of a flavour or brand, without the shop's name. */
export function groupTitle({ name, lowestPrice }: Pick<DescribedGroup, 'name' | 'lowestPrice'>): string {
  return lowestPrice === null
    ? `${name} drinks, delivered in Nairobi`
    : `${name} drinks from ${formatKsh(lowestPrice)}, delivered in Nairobi`;
}

/** The description of the page of a flavour or brand: what staff wrote, or else its drinks. */
export function groupDescription({ name, text, count, lowestPrice }: DescribedGroup): string {
  if (text.trim()) return shortenText(text);
  const drinks = count === 1 ? `1 ${name} drink` : `${count} ${name} drinks`;
  const from = lowestPrice === null ? '' : ` from ${formatKsh(lowestPrice)}`;
  return `${drinks} with khat from Meru${from}, delivered ice-cold in Nairobi in 15-60 minutes. Order without an account, pay by M-PESA.`;
}
