// The password of an STK request: it holds the time, which the request must name alike.

const NAIROBI_OFFSET_MS = 3 * 60 * 60 * 1000;

/**
 * The moment as Daraja writes it: Nairobi time, which has no daylight saving.
 * @returns `YYYYMMDDHHmmss`
 */
export function darajaTimestamp(moment: Date): string {
  return new Date(moment.getTime() + NAIROBI_OFFSET_MS).toISOString().replace(/\D/g, '').slice(0, 14);
}

/**
 * The fields by which a merchant identifies itself in an STK push and an STK query (Daraja, STK push).
 * @param merchant its shortcode and passkey
 * @param moment now; one value for the password and for the timestamp, or Daraja answers "Wrong credentials"
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
