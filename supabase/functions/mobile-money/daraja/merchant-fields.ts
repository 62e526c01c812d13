// Daraja's time formats, and the password of STK requests, which contains the request's timestamp.

const NAIROBI_OFFSET_MS = 3 * 60 * 60 * 1000;

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
 * Returns the merchant's fields of an STK push or STK query (Daraja, STK push).
 * @param merchant its shortcode and passkey
 * @param moment now; password and timestamp must have the same time, otherwise Daraja answers "Wrong credentials"
 */
export function merchantFields(
  merchant: { shortcode: string; passkey: string },
  moment: Date,
): { BusinessShortCode: string; Password: string; Timestamp: string } {
  const timestamp = darajaTimestamp(moment);
  return {
    BusinessShortCode: merchant.shortcode,
    Password: btoa(merchant.shortcode + merchant.passkey + timestamp),
    Timestamp: timestamp,
  };
}
