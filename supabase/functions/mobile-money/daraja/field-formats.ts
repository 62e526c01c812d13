// Formats of Daraja's fields: times in Nairobi, and amounts in shillings.

const NAIROBI_OFFSET_MS = 3 * 60 * 60 * 1000;
const SMALLEST_INTEGER = -2_147_483_648;
const LARGEST_INTEGER = 2_147_483_647;

/**
 * Formats a date as Daraja does: Nairobi time, which has no daylight saving.
 * @returns `YYYYMMDDHHmmss`
 */
export function darajaTimestamp(moment: Date): string {
  return new Date(moment.getTime() + NAIROBI_OFFSET_MS).toISOString().replace(/\D/g, '').slice(0, 14);
}

/**
 * Formats a date for the statement's period (Daraja, Pull Transactions), in Nairobi time.
 * @returns `YYYY-MM-DD HH:mm:ss`
 */
export function darajaDateTime(moment: Date): string {
  return new Date(moment.getTime() + NAIROBI_OFFSET_MS).toISOString().slice(0, 19).replace('T', ' ');
}

/**
 * Reads Daraja's time: `YYYYMMDDHHmmss` as digits or a number, or an ISO date. It is Nairobi time unless it
 * has a zone.
 * @returns null for anything else
 */
export function readDarajaTime(value: unknown): Date | null {
  if (typeof value !== 'string' && typeof value !== 'number') return null;
  const iso = String(value)
    .trim()
    .replace(/^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)$/, '$1-$2-$3T$4:$5:$6')
    .replace(' ', 'T');
  const parts = /^(\d{4}-\d\d-\d\dT\d\d:\d\d)(:\d\d)?(\.\d+)?(Z|[+-]\d\d:?\d\d)?$/i.exec(iso);
  if (!parts) return null;
  const [, minutes, seconds = ':00', , zone = '+03:00'] = parts;
  const moment = new Date(`${minutes}${seconds}${zone}`);
  return Number.isNaN(moment.getTime()) ? null : moment;
}

/**
 * Converts shillings of a callback to cents.
 * @param value a number, or a string with a decimal number
 * @returns cents, clamped to 32 bits so that a huge amount is a wrong one; null unless it is whole cents
 */
export function centsOf(value: unknown): number | null {
  const shillings =
    typeof value === 'number'
      ? value
      : typeof value === 'string' && /^-?\d+(\.\d+)?$/.test(value.trim())
        ? Number(value)
        : Number.NaN;
  if (Number.isNaN(shillings)) return null;
  const clamped = Math.min(Math.max(shillings * 100, SMALLEST_INTEGER), LARGEST_INTEGER);
  // Adding 0 turns -0 into 0.
  const cents = Math.round(clamped) + 0;
  // Tolerates floating-point rounding.
  return Math.abs(clamped - cents) < 1e-4 ? cents : null;
}
