import { type NameOf, shorten } from '../ui/known-names.ts';

/**
 * The member who prepares an order, in words.
 * @param takenBy email address of that member; null: no one yet
 * @param own email address of the reader
 */
export function whoHasIt(takenBy: string | null, own: string, nameOf: NameOf): string | null {
  if (takenBy === null) return null;
  return takenBy === own ? 'You have it' : `${shorten(nameOf(takenBy))} has it`;
}
