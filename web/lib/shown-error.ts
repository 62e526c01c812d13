/** An error whose message may be shown to users. Messages of other errors are not shown. */
export class ShownError extends Error {
  override name = 'ShownError';
}
