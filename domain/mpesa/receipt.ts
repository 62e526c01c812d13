// Receipts of M-PESA, as messages and people write them. The same rule in SQL: private.normalised_receipt.

/** Blanks and invisible characters that copying leaves in a receipt. The same list is in private.normalised_receipt. */
const blanks = /[\s\u0085\u00A0\u00AD\u061C\u1680\u180E\u2000-\u200F\u2028-\u202F\u205F-\u206F\u3000\uFEFF]/g;
/** Longer texts are not receipts, whatever they contain. */
const MAX_WRITTEN_LENGTH = 100;

/**
 * Normalises an M-PESA receipt: ten letters and digits, in capitals. Accepts small letters, full-width characters, and blanks inside and
 * around it. Letters are never exchanged for digits (O for 0), because both occur.
 * @param written a value of a message, or text as typed; a receipt of digits only may be a number
 * @returns such as `UKL3AB12CD`; null for anything that is not a receipt
 */
export function normaliseReceipt(written: unknown): string | null {
  if (typeof written !== 'string' && typeof written !== 'number') return null;
  const text = String(written);
  if (text.length > MAX_WRITTEN_LENGTH) return null;
  const compact = text.normalize('NFKC').replace(blanks, '');
  // Checked before the change to capitals, which turns some other letters into these.
  return /^[A-Za-z0-9]{10}$/.test(compact) ? compact.toUpperCase() : null;
}
