// Whom staff mean by a typed text.
import { isEmail } from '../../../domain/people/email.ts';
import { normalisePhone } from '../../../domain/people/phone.ts';

/** An email as typed, even one with a phone in it, as `private.read_person` reads it; a phone normalised; null for other texts. */
export function identifierOf(typed: string): string | null {
  const text = typed.trim();
  return isEmail(text) ? text : normalisePhone(text);
}
