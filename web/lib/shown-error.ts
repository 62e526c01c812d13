/** An error whose message is written for people. Other messages come from the database, a library or the browser and are not shown. */
export class ShownError extends Error {
  override name = 'ShownError';
}
