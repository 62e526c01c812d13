// Errors of requests, with PostgREST's texts and codes.

/** The four fields every error answer has. */
export interface ErrorBody {
  code: string;
  message: string;
  details: unknown;
  hint: string | null;
}

/** A request that cannot be served. Thrown by any stage; thrown inside a transaction it undoes it. */
export class DataError extends Error {
  override readonly name = 'DataError';
  readonly status: number;
  // Not a field `code` of the error itself: drivers would treat it as an error of the database.
  readonly body: ErrorBody;
  readonly headers: Readonly<Record<string, string>>;
  readonly statusText: string;

  /**
   * @param status the HTTP status of the answer
   * @param body code and message; details and hint default to null
   * @param headers additional headers of the answer
   * @param statusText replaces the standard status text; omitted where a response may not have one
   */
  constructor(
    status: number,
    body: { code: string; message: string; details?: unknown; hint?: string | null },
    headers: Readonly<Record<string, string>> = {},
    statusText = '',
  ) {
    super(body.message);
    this.status = status;
    this.body = {
      code: body.code,
      message: body.message,
      details: body.details ?? null,
      hint: body.hint ?? null,
    };
    this.headers = headers;
    this.statusText = /^[\t\x20-\x7e\x80-\xff]*$/.test(statusText) ? statusText : '';
  }
}
