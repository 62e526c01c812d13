// Tracking numbers: JJ-YYYYMMDD-NNNN.
import { normalisePhone } from './phone.ts';

// Also within a link or a sentence; with or without hyphens and JJ; never as part of a longer number.
const written = /(?:^|[^A-Z0-9])(?:JJ[\W_]{0,3})?(\d{8})[\W_]{0,3}(\d{4,6})(?![0-9])/;
/** The form of `accountReference`, which customers may copy from M-PESA's message. */
const asReference = /(?:^|[^A-Z0-9])JJ(\d{6})(\d{4})(?![A-Z0-9])/;

/**
 * A tracking number as it is stored, from typed or pasted text.
 * @returns `JJ-YYYYMMDD-NNNN` if the text contains one, else the text, trimmed and in upper case; '' when blank
 */
export function normaliseTrackingNumber(input: string): string {
  const typed = input
    .replace(/\p{Cf}/gu, '')
    .trim()
    .toUpperCase();
  const [, day, number] = written.exec(typed) ?? [];
  if (day) return `JJ-${day}-${number}`;
  const [, shortDay, shortNumber] = asReference.exec(typed) ?? [];
  return shortDay ? `JJ-20${shortDay}-${shortNumber}` : typed;
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
