// The one check of an email address, the same for every form and setting.

/** The longest email address there is (RFC 5321, section 4.5.3.1.3, without the angle brackets). */
export const maxEmailLength = 254;

/**
 * Whether a text has the form of an e-mail address: text before one `@`, and after it a dot with text on both sides. Whether
 * the address exists, only a mail can show.
 * @param text without white space at its ends; of any length, as strangers write it
 */
export function isEmail(text: string): boolean {
  if (text.length > maxEmailLength || /[\s\p{Cc}]/u.test(text)) return false;
  const [local = '', domain = '', ...others] = text.split('@');
  if (local === '' || others.length > 0) return false;
  const dot = domain.indexOf('.', 1);
  return dot > 0 && dot < domain.length - 1;
}
