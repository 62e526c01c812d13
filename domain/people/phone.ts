// Reads and normalises phone numbers. Every page shows one, and only forms read them: the format is a file of its own.
export { formatPhone } from './phone-format.ts';

const specified = /^(\+254|0)[17]\d{8}$/;
/** Maximum characters of a text with a number, such as a link or a short sentence. */
const maxWrittenLength = 100;
/** Maximum characters of a whole contact or message that was pasted, of which a field keeps the number alone. */
const maxPastedLength = 2000;

/** Digits with what people write between them. Other characters, line ends included, separate numbers. */
const digitRuns = /\+?\d(?:[\d \t\u00a0\u2000-\u200a\u2010-\u2015\u202f\u2212\u3000().-]*\d)?/g;

/** Digits of a run that is not a phone number at most; longer runs are another number, or a mistyped one. */
const maxOtherDigits = 6;

/**
 * Reads a Kenyan mobile number: `07…`, `01…`, `7…`, `1…`, `254…`, `+254…`, `00254…`, `+254 (0)7…`, with spaces, hyphens, dots,
 * brackets, full-width digits and invisible characters, also in a link (`tel:`, `wa.me`) or with a name.
 * `private.normalised_phone` reads the same (`phone-examples.ts`).
 * @param input text as typed or pasted, of any length
 * @returns `+254` and nine digits; null for a text without a Kenyan mobile number, with different numbers, or longer than 100
 *   characters
 */
export function normalisePhone(input: string): string | null {
  return input.length > maxWrittenLength ? null : readPhone(input);
}

function readPhone(input: string): string | null {
  const written = input
    .replace(/\p{Cf}/gu, '')
    .replace(/[０-９]/g, (digit) => String.fromCharCode(digit.charCodeAt(0) - 0xfee0))
    .replaceAll('＋', '+');
  const numbers = new Set<string>();
  let hasOtherDigits = false;
  let isBare = false;
  for (const { 0: run, index } of written.matchAll(digitRuns)) {
    const digits = run.replace(/[^\d+]/g, '');
    const local = digits.replace(/^(?:\+254|00254|254)0?(?=[17])/, '0');
    const isWhole = specified.test(local);
    if (isWhole) numbers.add(local.slice(-9));
    else if (/^[17]\d{8}$/.test(digits) && !isBetweenLetters(written, index, run.length)) {
      isBare = true;
      numbers.add(digits);
    } else if (digits.length > maxOtherDigits) return null;
    else hasOtherDigits = true;
  }
  // Beside other digits, nine digits may be the end of a foreign number.
  if (numbers.size !== 1 || (isBare && hasOtherDigits)) return null;
  return `+254${[...numbers][0]}`;
}

/**
 * The number in a pasted contact, link or sentence as people write it, for its field.
 * @param input text as typed or pasted, of any length
 * @returns such as `0712345678`; the input itself where it holds nothing but a number, and where no number can be read
 */
export function tidyPhone(input: string): string {
  const isText = input.length <= maxPastedLength && /[\p{L}\p{Cf}<>;/]/u.test(input);
  const phone = isText ? readPhone(input) : null;
  return phone ? `0${phone.slice(4)}` : input;
}

/** Whether a run of digits touches a letter, such as an O for a zero. */
const isBetweenLetters = (text: string, index: number, length: number): boolean =>
  /[a-z]/i.test(text.charAt(index - 1) + text.charAt(index + length));

/**
 * Normalises a phone number of any country to international form. One that begins with 0 is Kenyan, landlines included.
 * @param input text as typed
 * @returns `+` and 8 to 15 digits, or null when it is not a phone number
 */
export function normaliseAnyPhone(input: string): string | null {
  if (input.length > maxWrittenLength) return null;
  const compact = input.replace(/[\s().-]/g, '');
  const international = /^0[1-9]\d{7,8}$/.test(compact)
    ? `+254${compact.slice(1)}`
    : /^254\d{8,9}$/.test(compact)
      ? `+${compact}`
      : compact;
  return /^\+[1-9]\d{7,14}$/.test(international) ? international : null;
}

/**
 * Converts a number to the format of M-PESA (Daraja, STK push, PartyA).
 * @param phone a number as `normalisePhone` gives it
 * @returns `254` and nine digits
 */
export function msisdn(phone: string): string {
  return phone.replace(/^\+/, '');
}

/**
 * Masks a number so that its owner can recognise it, as `track_order` does. Without its end, whose
 * last four digits reveal an order.
 * @param phone a number as `normalisePhone` gives it
 * @returns such as `0712 ••• •••`
 */
export function maskPhone(phone: string): string {
  return phone.replace(/^\+254(\d{3})\d{6}$/, '0$1 ••• •••');
}
