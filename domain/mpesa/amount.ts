// Amounts of M-PESA in shillings, as messages and people write them.

const SMALLEST_INTEGER = -2_147_483_648;
const LARGEST_INTEGER = 2_147_483_647;
const MAX_WRITTEN_LENGTH = 60;

// Digits alone, or in groups of three that one separator divides; then at most two decimals after a dot.
const number = /^([-+]?)(\d+|\d{1,3}(?:,\d{3})+|\d{1,3}(?: \d{3})+)(?:\.(\d{1,2}))?$/;
const currency = '(?:kes|kshs?|sh|shs)\\.?';
const currencyBefore = new RegExp(`^([-+]?) ?${currency} ?`, 'i');
/** After the amount, also as in 1,951/- and 1,951/=. */
const currencyAfter = new RegExp(`(?: ?${currency}| ?/[-=])$`, 'i');

/**
 * Reads an amount in shillings.
 *
 * - A dot separates at most two decimals; commas or blanks separate groups of three digits. `1,951` is 1951 shillings, because M-PESA
 *   writes groups with commas.
 * - What has two meanings is unreadable: `1.951` and `951,00` (elsewhere dot and comma have the other meaning), more than two decimals,
 *   incomplete groups (`1,95`), exponents (`9.51e2`).
 * - One currency may stand on either side: `KES`, `Ksh`, `Kshs`, `Sh`, `Shs`, `/-`, `/=`.
 * @param value a value of a message (number or text), or text as typed
 * @returns cents, clamped to 32 bits so that a huge amount is a wrong one, and negative for money that leaves; null if it cannot be read
 */
export function readAmountCents(value: unknown): number | null {
  if (typeof value === 'number') return centsOf(value);
  if (typeof value !== 'string' || value.length > MAX_WRITTEN_LENGTH) return null;
  const text = value.normalize('NFKC').replaceAll('\u2212', '-').replace(/\s+/g, ' ').trim();
  const amount = currencyBefore.test(text)
    ? text.replace(currencyBefore, '$1')
    : text.replace(currencyAfter, '');
  const [, sign, whole, decimals = ''] = number.exec(amount) ?? [];
  if (whole === undefined) return null;
  const cents = Number(whole.replace(/[, ]/g, '')) * 100 + Number(decimals.padEnd(2, '0'));
  return clamp(sign === '-' ? -cents : cents);
}

function centsOf(shillings: number): number | null {
  if (Number.isNaN(shillings)) return null;
  const exact = clamp(shillings * 100);
  const cents = Math.round(exact) + 0;
  // Tolerates floating-point rounding.
  return Math.abs(exact - cents) < 1e-4 ? cents : null;
}

// Adding 0 turns -0 into 0.
const clamp = (cents: number): number => Math.min(Math.max(cents, SMALLEST_INTEGER), LARGEST_INTEGER) + 0;
