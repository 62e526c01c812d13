// What goes wrong with a request, in the words and codes of PostgREST.

/** The four fields every error answer has. */
export interface FaultBody {
  code: string;
  message: string;
  details: unknown;
  hint: string | null;
}

/** A request that cannot be served. Thrown by any stage; thrown inside a transaction it undoes it. */
export class Fault extends Error {
  override readonly name = 'Fault';
  readonly status: number;
  // Not a field `code` of the error itself: drivers take such errors for the database's own.
  readonly body: FaultBody;
  readonly headers: Readonly<Record<string, string>>;
  readonly statusText: string;

  /**
   * @param status the HTTP status of the answer
   * @param body code and message; details and hint are null unless given
   * @param headers additional headers of the answer
   * @param statusText said with the status in place of the usual words; left out when no answer may have it
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
