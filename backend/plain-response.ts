// A response whose body is at hand: who sends it writes it as it is, where a Response would first make a stream of it.

/** Header names in lower case; several values only where they may not be joined. */
export type PlainHeaders = Record<string, string | string[]>;

export class PlainResponse {
  readonly status: number;
  readonly headers: PlainHeaders;
  readonly body: string | Uint8Array<ArrayBuffer> | null;
  /** In place of the words that usually go with the status; '' for those. */
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
   * The same as the Web knows it.
   * @throws TypeError for a header that cannot be sent
   */
  toResponse(): Response {
    const { body, status, statusText, headers } = this;
    return new Response(body, { status, statusText, headers: webHeaders(headers) });
  }
}

/** Headers as the Web knows them. */
export function webHeaders(plain: PlainHeaders): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(plain)) {
    for (const each of [value].flat()) headers.append(name, each);
  }
  return headers;
}
