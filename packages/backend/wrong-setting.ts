// The error of invalid settings, which stops the start.

/** An invalid setting. The message names it and its valid values. */
export class WrongSetting extends Error {
  override readonly name = 'WrongSetting';
}
