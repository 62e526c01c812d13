// Normalises and formats phone numbers.

const specified = /^(\+254|0)[17]\d{8}$/;
/** Maximum characters of a typed number, punctuation included. */
const maxWrittenLength = 60;

/**
 * Normalises a Kenyan mobile number: `07…`, `01…`, `7…`, `1…`, `254…`, `+254…`, `00254…`, `+254 (0)7…`, with
 * spaces, hyphens, dots, brackets, and the invisible characters that contacts and chats add around a copied number.
 * @param input text as typed
 * @returns `+254` and nine digits, or null when it is not a Kenyan mobile number (specification §5, Customer order form, 3)
 */
export function normalisePhone(input: string): string | null {
  if (input.length > maxWrittenLength) return null;
  const compact = input
    .replace(/[\s\p{Cf}\p{Pd}.()]/gu, '')
    .replace(/^00254/, '+254')
    .replace(/^\+?2540/, '+254');
  const withPrefix = /^254\d/.test(compact) ? `+${compact}` : /^[17]/.test(compact) ? `0${compact}` : compact;
  return specified.test(withPrefix) ? `+254${withPrefix.replace(/^(\+254|0)/, '')}` : null;
}

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
 * Formats a number in groups, as people read it aloud.
 * @param phone a number as `normalisePhone` gives it; anything else comes back unchanged
 * @returns such as `0712 345 678`
 */
export function formatPhone(phone: string): string {
  const match = /^\+254(\d{3})(\d{3})(\d{3})$/.exec(phone);
  return match ? `0${match[1]} ${match[2]} ${match[3]}` : phone;
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
