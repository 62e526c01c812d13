// Numbers of orders: the customer's tracking number JJ-YYYYMMDD-NNNN, and the staff's order number ORD-NNNN. The only reader of
// both; its counterpart in SQL is `private.order_numbers_in`, and order-number-examples.ts tests the two together.
import { normalisePhone } from '../people/phone.ts';

/** Longer texts are cut before a pattern reads them. */
const longestText = 300;
const invisible = /[\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]/g;

// Every repetition is bounded, so that reading takes linear time, and nothing looks behind (Safari before 16.4).
const mark = '[^A-Z0-9]';
/** People write O for 0, and I or l for 1. */
const digit = '[0-9OIL]';
/** 20261121 or 261121, also with one mark between its parts. Years begin at 2020, so no phone number is one. */
const date = `((?:2[0O])?[2-9]${digit})${mark}?([0O][1-9IL]|[1IL][0-2OIL])${mark}?([0O][1-9IL]|[12IL]${digit}|3[01OIL])`;
const patterns = {
  /** With JJ: a word may be attached to either end. */
  tracking: `J${mark}?J${mark}{0,3}${date}${mark}{0,3}(${digit}{4,6}(?![A-Z0-9])|[0-9]{4,6}(?=[A-Z]))`,
  /** Without JJ: never a part of a longer number or word. */
  bare: `(?:^|${mark})${date}${mark}{0,3}(${digit}{4,6})(?![A-Z0-9])`,
  /** ORD-1060, ord1060, "order no. 1060"; not the amount in "order 1500/=" or "order 1500.00". */
  order: `(?:^|${mark})[0O]RD(?:ER)?${mark}{0,3}(?:N(?:O|R|UMBER)${mark}{0,3})?(?=[OIL]{0,8}[0-9])([1-9IL]${digit}{3,8}(?![A-Z0-9]|[.,][0-9]|/[=-])|[1-9][0-9]{3,8}(?=[A-Z])(?!KES|KSH|SH|BOB|ML))`,
};
const tracking = new RegExp(patterns.tracking, 'g');
const bare = new RegExp(patterns.bare, 'g');
const order = new RegExp(patterns.order, 'g');

/** Only ASCII letters change, as in SQL: `toUpperCase` makes two letters of some others. */
const inCapitals = (text: string): string =>
  text.replace(invisible, '').replace(/[a-z]+/g, (letters) => letters.toUpperCase());
const inDigits = (text: string): string => text.replaceAll('O', '0').replace(/[IL]/g, '1');

const trackingNumberOf = (year: string, month: string, day: string, ending: string): string =>
  `JJ-${inDigits(year.length === 2 ? `20${year}${month}${day}` : year + month + day)}-${inDigits(ending)}`;

/**
 * The numbers of orders that a short text names, such as a payer's reference, a pasted link or a search.
 * @param text any text; only its first 300 characters are read
 * @returns distinct numbers as they are stored: tracking numbers (`JJ-YYYYMMDD-NNNN`, four to six digits at the end), then order
 * numbers (`ORD-NNNN`). Several numbers may name one order; whether an order has them is not known here.
 */
export function readOrderNumbers(text: string): string[] {
  const written = inCapitals(text.slice(0, longestText));
  const numbers = new Set<string>();
  for (const pattern of [tracking, bare]) {
    for (const [, year = '', month = '', day = '', ending = ''] of written.matchAll(pattern)) {
      numbers.add(trackingNumberOf(year, month, day, ending));
    }
  }
  for (const [, number = ''] of written.matchAll(order)) numbers.add(`ORD-${inDigits(number)}`);
  return [...numbers];
}

/** A tracking number in a text, with its place there. */
export interface FoundNumber {
  /** As it is stored. */
  number: string;
  start: number;
  end: number;
}

/**
 * The tracking numbers that are written with their JJ in a text of any length, with their places, for links. Dates and amounts in
 * a long text are none.
 */
export function findTrackingNumbers(text: string): FoundNumber[] {
  // Letter for letter, so that places stay.
  const written = text.replace(/[a-z]+/g, (letters) => letters.toUpperCase());
  return [...written.matchAll(tracking)].flatMap((match) => {
    const [whole, year = '', month = '', day = '', ending = ''] = match;
    // Part of a longer word.
    if (/[A-Z0-9]/.test(written[match.index - 1] ?? '')) return [];
    return [
      {
        number: trackingNumberOf(year, month, day, ending),
        start: match.index,
        end: match.index + whole.length,
      },
    ];
  });
}

/**
 * The number of an order as it is stored, from typed or pasted text.
 * @returns `JJ-YYYYMMDD-NNNN`, else `ORD-NNNN` if the text contains one, else the text, trimmed and in upper case; '' when blank
 */
export function normaliseTrackingNumber(input: string): string {
  return (
    readOrderNumbers(input)[0] ??
    input
      .slice(0, longestText)
      .replace(/\p{Cf}/gu, '')
      .trim()
      .toUpperCase()
  );
}

/**
 * Recognises what a customer entered instead of the tracking number.
 * @param text normalised text
 * @returns null when it is not recognised
 */
export function describeOtherNumber(text: string): string | null {
  if (/^ORD\W{0,3}\d+$/.test(text)) return `${text} is an order number.`;
  if (normalisePhone(text)) return 'That is a phone number.';
  if (/^(?=.{0,9}\d)[A-Z][A-Z0-9]{9}$/.test(text)) return 'That looks like an M-PESA receipt.';
  return /^\d{4,6}$/.test(text) ? 'That is only a part of the number.' : null;
}

/** Whether a text is a tracking number as it is stored. Call it with text of bounded length. */
export const isTrackingNumber = (text: string): boolean => /^JJ-\d{8}-\d{4,6}$/.test(text);

/**
 * Shortens it for M-PESA's AccountReference of at most 12 characters (Daraja, STK push).
 * @param trackingNumber such as `JJ-20261121-1234`
 * @returns such as `JJ2611211234`; longer numbers of a busy day lose their hyphens and century and then their JJ
 */
export function accountReference(trackingNumber: string): string {
  const compact = trackingNumber.replace(/^JJ-\d\d(\d{6})-/, 'JJ$1');
  return compact.length <= 12 ? compact : compact.replace(/^JJ/, '').slice(0, 12);
}
