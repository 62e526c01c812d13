// A read whose URL and headers need no normalisation. Creating and reading a `Request` would cost more than the rest of most table
// reads.

/** The used methods of a request's headers, with lower-case names. `Headers` has them too. */
export interface HeaderLookup extends Iterable<[string, string]> {
  get(name: string): string | null;
  has(name: string): boolean;
}

/** A request without a body. Its parts are named as those of a URL and a Request are. */
export class PlainRequest {
  readonly method: 'GET' | 'HEAD';
  readonly pathname: string;
  /** Including its `?`; '' without one. */
  readonly search: string;
  readonly headers: HeaderLookup;

  /**
   * @param pathname and `search` as URL parsing would return them
   * @param headers by names in lower case, `host` among them
   */
  constructor(
    method: 'GET' | 'HEAD',
    pathname: string,
    search: string,
    headers: Readonly<Record<string, string>>,
  ) {
    this.method = method;
    this.pathname = pathname;
    this.search = search;
    this.headers = {
      get: (name) => (Object.hasOwn(headers, name) ? (headers[name] ?? null) : null),
      has: (name) => Object.hasOwn(headers, name),
      [Symbol.iterator]: () => Object.entries(headers)[Symbol.iterator](),
    };
  }

  get url(): string {
    return `http://${this.headers.get('host') ?? 'localhost'}${this.pathname}${this.search}`;
  }

  /** The same as a `Request`. */
  toRequest(): Request {
    return new Request(this.url, { method: this.method, headers: [...this.headers] });
  }
}

/** Path and query of a request. */
export function addressOf(request: Request | PlainRequest): Pick<URL, 'pathname' | 'search'> {
  return request instanceof PlainRequest ? request : new URL(request.url);
}
