// Checks the three fields that authenticate the merchant's pushes and queries.

import { isCompactTime } from '../ledger/nairobi-time.ts';
import { badRequest, type DarajaError, noAnswer } from './daraja-errors.ts';
import { type Fields, fieldText } from './request-fields.ts';

/** Password is the base64 of shortcode, passkey and the request's Timestamp. */
export function checkMerchant(
  fields: Fields,
  merchant: { shortcode: string; passkey: string },
): DarajaError | null {
  const shortcode = fieldText(fields, 'BusinessShortCode');
  const timestamp = fieldText(fields, 'Timestamp');
  const password = fieldText(fields, 'Password');
  if (!/^\d{5,7}$/.test(shortcode)) return badRequest('BusinessShortCode');
  if (!isCompactTime(timestamp)) return badRequest('Timestamp');
  if (password === '') return badRequest('Password');
  if (shortcode !== merchant.shortcode) return noAnswer('Merchant does not exist');
  const expected = Buffer.from(shortcode + merchant.passkey + timestamp).toString('base64');
  return password === expected ? null : noAnswer('Wrong credentials');
}
