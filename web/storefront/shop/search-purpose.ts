// Guesses the purpose of a search that is not for a drink: an order, a price, or a question to the shop.
import { readOrderNumbers } from '../../../domain/orders/tracking-number.ts';

/**
 * `trackingNumber`: a tracking number or order number that the search names. `delivery`, `contact` and `question` (about payment, age or
 * contents) are answered on pages of their own.
 */
export type SearchPurpose =
  | { kind: 'order'; trackingNumber: string | null }
  | { kind: 'price' | 'delivery' | 'contact' | 'question' };

const longest = 100;
const orderWords = /\b(?:track(?:ing)?|orders?|ord\W{0,3}\d{3,}|delivery status|my package|parcel)\b/i;
const priceWords =
  /\b(?:under|below|(?:less|cheaper) than|or less|up to|max(?:imum)?|from|over|above|about|around|budget|price|bei|chini ya|hadi|kama|ksh?s?|kes|shs?|shillings?|shilingi|bob)\b|\/[=-]|[<≤]/i;
const priceRange = /^[1-9]\d{1,4}\s*(?:[-–]|to)\s*[1-9]\d{1,4}$/;

const deliveryWords =
  /\b(?:deliver\w*|ship(?:ping|s)?|courier|rider|boda(?:boda)?|how long|outside nairobi|mombasa|kisumu|nakuru|eldoret|thika)\b/i;
const contactWords =
  /\b(?:contacts?|phone number|whats ?app|email|located|location|address|opening|open|closing|closed|hours|where (?:are|is))\b/i;
const questionWords =
  /\b(?:m-?pesa|pay(?:ment|bill|ing)?|till|cash|lipa|refunds?|alcohol\w*|caffeine|halal|legal|safe|pregnan\w*|side effects?|kids|children|age|(?:how|can|do|does|is|are|who) (?:i|to|it|you|they|can|this|these)|faq)\b/i;

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
  if (isPrice || isNamed) return { kind: 'price' };
  if (deliveryWords.test(text)) return { kind: 'delivery' };
  if (contactWords.test(text)) return { kind: 'contact' };
  return questionWords.test(text) ? { kind: 'question' } : null;
}

/** A space between a figure and a letter beside it. Without look-behind, which older Safari cannot parse. */
const separateFigures = (text: string) => text.replace(/\d(?=[a-z])|[a-z](?=\d)/gi, '$& ');
