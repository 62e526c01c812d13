// Rendered pages of the anonymous storefront, compressed and ready to send, until the database says that they changed.
import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';

const [toBrotli, toGzip] = [promisify(brotliCompress), promisify(gzip)];

export type Encoding = 'br' | 'gzip' | 'identity';

/** A page as it is sent: its headers, and its body in each encoding. */
export interface CachedPage {
  status: number;
  headers: Record<string, string>;
  etag: string;
  bodies: Record<Encoding, Buffer>;
}

// What of an address a page may depend on. Other parameters (campaign tags, say) do not make another page.
const pageParameters: Record<string, readonly string[]> = {
  '/': [],
  '/shop': ['search', 'filter', 'brand', 'category', 'sort'],
  '/contact': [],
  '/delivery': [],
  '/track-order': [],
  '/sitemap.xml': [],
  '/robots.txt': [],
  '/manifest.webmanifest': [],
};
const productPage = /^\/shop\/[a-z0-9-]{1,200}$/;

/**
 * The key under which a page is kept.
 * @param url path and query of a request
 * @returns null when the page may be personal, or is none of the storefront's
 */
export function pageKey(url: URL): string | null {
  const isData = url.pathname.endsWith('.data');
  const path = isData ? url.pathname.replace(/\/?(_root|_|)\.data$/, '') || '/' : url.pathname;
  const parameters = productPage.test(path)
    ? []
    : Object.hasOwn(pageParameters, path)
      ? pageParameters[path]
      : undefined;
  if (!parameters) return null;
  if (path === '/track-order' && (url.searchParams.has('tracking') || url.searchParams.has('key')))
    return null;
  const kept = parameters.flatMap((name) => {
    const value = url.searchParams.get(name);
    return value ? [`${name}=${encodeURIComponent(value)}`] : [];
  });
  if (isData && url.searchParams.has('_routes')) kept.push(`_routes=${url.searchParams.get('_routes')}`);
  const key = `${url.pathname}?${kept.join('&')}`;
  return key.length <= 500 ? key : null;
}

/**
 * Turns a rendered answer into what is sent.
 * @param body the page's bytes
 * @param effort how hard to compress: pages that are kept are worth more
 */
export async function compressPage(
  status: number,
  headers: Record<string, string>,
  body: Buffer,
  effort: 'kept' | 'once',
): Promise<CachedPage> {
  const [br, gz] = await Promise.all([
    toBrotli(body, {
      params: {
        [constants.BROTLI_PARAM_QUALITY]: effort === 'kept' ? 9 : 4,
        [constants.BROTLI_PARAM_SIZE_HINT]: body.length,
      },
    }),
    toGzip(body, { level: effort === 'kept' ? 8 : 5 }),
  ]);
  const etag = `W/"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`;
  return { status, headers, etag, bodies: { br, gzip: gz, identity: body } };
}

/** Keeps pages by key, bounded, least recently used out first. */
export class PageCache {
  readonly #pages = new Map<string, CachedPage>();
  // The same pages by the addresses they were last asked for under, so that a hit costs no parsing.
  readonly #byAddress = new Map<string, CachedPage>();
  readonly #rendering = new Map<string, Promise<CachedPage>>();
  readonly #limit: number;
  #epoch = 0;

  constructor(limit = 500) {
    this.#limit = limit;
  }

  get(key: string): CachedPage | undefined {
    const page = this.#pages.get(key);
    if (page) {
      this.#pages.delete(key);
      this.#pages.set(key, page);
    }
    return page;
  }

  /**
   * Gives a kept page by the address in a request's first line.
   * @param address path and query as they came
   */
  find(address: string): CachedPage | undefined {
    const known = this.#byAddress.get(address);
    if (known) return known;
    const key =
      address.startsWith('/') && URL.canParse(address, 'http://shop')
        ? pageKey(new URL(address, 'http://shop'))
        : null;
    const page = key ? this.get(key) : undefined;
    if (page && address.length <= 500) {
      if (this.#byAddress.size >= 2 * this.#limit) this.#byAddress.clear();
      this.#byAddress.set(address, page);
    }
    return page;
  }

  /**
   * Gives the page, rendering it when it is not there. Callers that miss at once share one render.
   * Only answers with status 200 are kept, and none whose render began before the last change.
   */
  async getOrRender(key: string, render: () => Promise<CachedPage>): Promise<CachedPage> {
    const kept = this.get(key);
    if (kept) return kept;
    const running = this.#rendering.get(key);
    if (running) return running;
    const epoch = this.#epoch;
    const rendering = render();
    this.#rendering.set(key, rendering);
    try {
      const page = await rendering;
      if (page.status === 200 && epoch === this.#epoch) this.#keep(key, page);
      return page;
    } finally {
      if (this.#rendering.get(key) === rendering) this.#rendering.delete(key);
    }
  }

  /** Forgets every page: what they show has changed, or may have. */
  clear(): void {
    this.#epoch += 1;
    this.#pages.clear();
    this.#byAddress.clear();
    // A render that began before the change must not be shared with a request that comes after it.
    this.#rendering.clear();
  }

  #keep(key: string, page: CachedPage): void {
    this.#pages.set(key, page);
    if (this.#pages.size > this.#limit) {
      const [oldest] = this.#pages.keys();
      if (oldest !== undefined) this.#pages.delete(oldest);
      this.#byAddress.clear();
    }
  }
}
