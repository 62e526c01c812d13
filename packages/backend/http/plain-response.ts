// A response with a complete body, written to the socket as is; a `Response` would create a stream first.

/** Header names in lower case; several values only where they may not be joined. */
export type PlainHeaders = Record<string, string | string[]>;

export class PlainResponse {
  readonly status: number;
  readonly headers: PlainHeaders;
  readonly body: string | Uint8Array<ArrayBuffer> | null;
  /** Replaces the standard status text; '' for the standard one. */
  readonly statusText: string;

  constructor(
    status: number,
    headers: PlainHeaders,
    body: string | Uint8Array<ArrayBuffer> | null,
    statusText = '',
  ) {
    this.status = status;
    this.headers = headers;
    this.body = body;
    this.statusText = statusText;
  }

  /**
   * The same as a `Response`.
   * @throws TypeError for a header that cannot be sent
   */
  toResponse(): Response {
    const { body, status, statusText, headers } = this;
    return new Response(body, { status, statusText, headers: webHeaders(headers) });
  }
}

/** Converts to `Headers`. */
export function webHeaders(plain: PlainHeaders): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(plain)) {
    for (const each of [value].flat()) headers.append(name, each);
  }
  return headers;
}
