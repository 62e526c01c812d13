// The merchant's fields of STK requests; the password contains the request's timestamp.
import { darajaTimestamp } from './field-formats.ts';

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
