// The payer's phone number (MSISDN) in M-PESA's messages: in full, masked, or hashed. It is shown to staff and never matched.
import { normalisePhone } from '../people/phone.ts';

/**
 * Reads a payer's phone number (Daraja: `MSISDN`, `msisdn`, `PhoneNumber`).
 * @param value a value of a message, number or text
 * @returns in full `254712345678`; masked `2547 ***** 126`, as M-PESA groups it; hashed 64 hexadecimal digits in small letters; null for
 *   anything else
 */
export function readPayerPhone(value: unknown): string | null {
  if (typeof value !== 'string' && typeof value !== 'number') return null;
  const text = String(value).slice(0, 100).normalize('NFKC').trim();
  // First, because the digits of a hash may look like a number.
  if (/^[0-9a-f]{64}$/i.test(text)) return text.toLowerCase();
  const full = normalisePhone(text);
  if (full !== null) return full.slice(1);
  const masked = /^\+?(\d{2,6})([*xX•●·#]+)(\d{0,4})$/.exec(text.replace(/[\s-]/g, ''));
  return masked ? [masked[1], '*'.repeat(masked[2]?.length ?? 0), masked[3]].filter(Boolean).join(' ') : null;
}
