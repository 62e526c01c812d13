// Guesses the purpose of a search without results: an order or a price.
import { readOrderNumbers } from '../../../domain/tracking-number.ts';

/** `trackingNumber`: a tracking number or order number that the search names. */
export type SearchPurpose = { kind: 'order'; trackingNumber: string | null } | { kind: 'price' };

const longest = 100;
const orderWords = /\b(?:track(?:ing)?|orders?|ord\W{0,3}\d{3,}|delivery status|my package|parcel)\b/i;
const priceWords =
  /\b(?:under|below|(?:less|cheaper) than|or less|up to|max(?:imum)?|from|over|above|about|around|budget|price|bei|chini ya|hadi|kama|ksh?s?|kes|shs?|shillings?|shilingi|bob)\b|\/[=-]|[<≤]/i;
const priceRange = /^[1-9]\d{1,4}\s*(?:[-–]|to)\s*[1-9]\d{1,4}$/;

/** @returns null when the text may be the name of a drink */
export function readSearchPurpose(search: string): SearchPurpose | null {
  const text = search.slice(0, longest);
  const [number] = readOrderNumbers(text);
  if (number) return { kind: 'order', trackingNumber: number };
  if (orderWords.test(text)) return { kind: 'order', trackingNumber: null };
  const figure = /\d[\d,.]*/.exec(text)?.[0] ?? '';
  const isBare = text.trim() === figure && /^[1-9]\d{1,5}$/.test(figure.replace(/[,.]/g, ''));
  const isPrice = isBare || priceRange.test(text.trim());
  // "700bob" is two words.
  const isNamed = figure !== '' && priceWords.test(separateFigures(text));
  return isPrice || isNamed ? { kind: 'price' } : null;
}

/** A space between a figure and a letter beside it. Without look-behind, which older Safari cannot parse. */
const separateFigures = (text: string) => text.replace(/\d(?=[a-z])|[a-z](?=\d)/gi, '$& ');
