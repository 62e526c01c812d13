// The one error that stops a start because of what a person set.

/** A setting has a value that cannot be meant. The message names it and says what it takes. */
export class WrongSetting extends Error {
  override readonly name = 'WrongSetting';
}
