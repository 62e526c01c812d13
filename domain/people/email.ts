// The one check of an email address, the same for every form and setting.
import { visibleLength, wordLength } from '../visible-text.ts';

/** The longest email address there is (RFC 5321, section 4.5.3.1.3, without the angle brackets). */
export const maxEmailLength = 254;

/**
 * Whether a text has the form of an e-mail address: text before one `@`, and after it a dot with text on both sides. Only an
 * email can show whether the address exists.
 * @param text without white space at its ends; of any length, because it is untrusted
 */
export function isEmail(text: string): boolean {
  if (text.length > maxEmailLength || /[\s\p{Cc}]/u.test(text)) return false;
  const [local = '', domain = '', ...others] = text.split('@');
  if (visibleLength(local) === 0 || wordLength(domain) === 0 || others.length > 0) return false;
  const dot = domain.indexOf('.', 1);
  return dot > 0 && dot < domain.length - 1;
}

const frequentDomains = ['gmail.com', 'yahoo.com', 'hotmail.com', 'outlook.com', 'icloud.com'];
/** Other providers, whose names are one character away from those. */
const similarDomains = ['mail.com', 'email.com', 'ymail.com', 'yahoo.co'];

/**
 * Suggests the probable address where a domain looks mistyped. The given one may still be right, so ask the user.
 * @returns null without a suggestion
 */
export function suggestEmail(text: string): string | null {
  const at = text.lastIndexOf('@');
  if (at < 1 || text.length > maxEmailLength) return null;
  const domain = text.slice(at + 1).toLowerCase();
  const plain = domain
    .replaceAll(',', '.')
    .replace(/\.{2,}/g, '.')
    .replace(/\.$/, '');
  if (frequentDomains.includes(domain) || similarDomains.includes(plain)) return null;
  const meant =
    frequentDomains.find(
      (one) => one === plain || one.startsWith(`${plain}.`) || isOneEditAway(plain, one),
    ) ?? plain;
  const suggestion = `${text.slice(0, at)}@${meant}`;
  return meant !== domain && isEmail(suggestion) ? suggestion : null;
}

/** One character added, removed or replaced, or two swapped. */
function isOneEditAway(typed: string, meant: string): boolean {
  let start = 0;
  while (start < meant.length && typed[start] === meant[start]) start += 1;
  const rest = (text: string, skipped: number) => text.slice(start + skipped);
  const hasChangedPlaces = typed[start] === meant[start + 1] && typed[start + 1] === meant[start];
  return (
    rest(typed, 1) === rest(meant, 1) ||
    rest(typed, 1) === rest(meant, 0) ||
    rest(typed, 0) === rest(meant, 1) ||
    (hasChangedPlaces && rest(typed, 2) === rest(meant, 2))
  );
}
