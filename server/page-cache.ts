// Rendered pages of the anonymous storefront, compressed and ready to send, until the database says that they changed.
import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { searchIn } from '../domain/catalogue.ts';

const [toBrotli, toGzip] = [promisify(brotliCompress), promisify(gzip)];

export type Encoding = 'br' | 'gzip' | 'identity';

/** A page as it is sent: its headers, and its body in each encoding. */
export interface CachedPage {
  status: number;
  headers: Record<string, string>;
  etag: string;
  bodies: Record<Encoding, Buffer>;
  /** What it was made from. A page that names nothing may be made from anything. */
  facts: readonly string[];
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
  if (!isPath.test(url.pathname)) return null;
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
    const value = name === 'search' ? searchIn(url.searchParams) : url.searchParams.get(name);
    return value ? [`${name}=${encodeURIComponent(value)}`] : [];
  });
  const routes = isData ? url.searchParams.get('_routes') : null;
  if (routes !== null) kept.push(`_routes=${encodeURIComponent(routes)}`);
  const key = `${url.pathname}?${kept.join('&')}`;
  return key.length <= 500 ? key : null;
}

/**
 * Turns a rendered answer into what is sent.
 * @param body the page's bytes
 * @param effort how hard to compress: pages that are kept are worth more
 * @param facts what the page was made from
 */
export async function compressPage(
  status: number,
  headers: Record<string, string>,
  body: Buffer,
  effort: 'kept' | 'once',
  facts: readonly string[] = [],
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
  return { status, headers, etag, bodies: { br, gzip: gz, identity: body }, facts };
}

// With two strokes at its beginning an address names another host.
const isPath = /^\/(?![/\\])/;

/** A page in its place; without the page once that is out of date. */
interface Entry {
  key: string;
  page: CachedPage | null;
}

/** The latest used are last. */
interface Pages {
  limit: number;
  entries: Map<string, Entry>;
}

/** What has changed since a render began. */
interface Render {
  changed: Set<string>;
  /** Whether what changed cannot be told. */
  isDoubtful: boolean;
}

/** Pages that name nothing they were made from. */
const unnamed = '';

/**
 * Caches pages by key until something they were made from changes; bounded, least recently used out first. Pages with parameters have
 * a bound of their own: a visitor who asks for one search after the other takes no other page out.
 */
export class PageCache {
  readonly #plain: Pages;
  readonly #withParameters: Pages;
  readonly #byFact = new Map<string, Set<Entry>>();
  // The same pages by the addresses they were last asked for under, so that a hit costs no parsing.
  readonly #byAddress = new Map<string, Entry>();
  readonly #sharing = new Map<string, Promise<CachedPage>>();
  readonly #renders = new Set<Render>();
  #isDeaf = false;

  /** @param limit pages without parameters; of those with parameters a fifth as many are cached */
  constructor(limit = 500) {
    this.#plain = { limit, entries: new Map() };
    this.#withParameters = { limit: Math.floor(limit / 5), entries: new Map() };
  }

  get(key: string): CachedPage | undefined {
    const { entries } = this.#pagesOf(key);
    const entry = entries.get(key);
    if (!entry?.page) return undefined;
    entries.delete(key);
    entries.set(key, entry);
    return entry.page;
  }

  #pagesOf(key: string): Pages {
    const parameters = key.indexOf('?') + 1;
    return parameters > 0 && parameters < key.length ? this.#withParameters : this.#plain;
  }

  /**
   * Gives a kept page by the address in a request's first line.
   * @param address path and query as they came
   */
  find(address: string): CachedPage | undefined {
    const known = this.#byAddress.get(address);
    if (known?.page) return known.page;
    if (known) this.#byAddress.delete(address);
    const key =
      isPath.test(address) && URL.canParse(address, 'http://shop')
        ? pageKey(new URL(address, 'http://shop'))
        : null;
    const page = key === null ? undefined : this.get(key);
    const entry =
      page && key !== null && address.length <= 500 ? this.#pagesOf(key).entries.get(key) : undefined;
    if (entry) {
      if (this.#byAddress.size >= 2 * this.#plain.limit) this.#byAddress.clear();
      this.#byAddress.set(address, entry);
    }
    return page;
  }

  /**
   * Gives the page, rendering it when it is not there. Callers that miss at once share one render.
   * Only answers with status 200 are kept, and none that was made from something which changed since its render began.
   */
  async getOrRender(key: string, render: () => Promise<CachedPage>): Promise<CachedPage> {
    const kept = this.get(key);
    if (kept) return kept;
    const shared = this.#sharing.get(key);
    if (shared) return shared;
    const began: Render = { changed: new Set(), isDoubtful: false };
    this.#renders.add(began);
    const rendering = render();
    this.#sharing.set(key, rendering);
    try {
      const page = await rendering;
      if (page.status === 200 && !this.#isDeaf && !isOutdated(page, began)) this.#keep(key, page);
      return page;
    } finally {
      this.#renders.delete(began);
      if (this.#sharing.get(key) === rendering) this.#sharing.delete(key);
    }
  }

  /**
   * Forgets the pages that were made from any of these.
   * @param facts what has changed
   */
  forget(facts: readonly string[]): void {
    if (facts.length === 0) return;
    for (const fact of [unnamed, ...facts]) {
      for (const entry of this.#byFact.get(fact) ?? []) this.#drop(entry);
    }
    for (const { changed } of this.#renders) for (const fact of facts) changed.add(fact);
    // A render that began before the change must not be shared with a request that comes after it.
    this.#sharing.clear();
  }

  /** Forgets every page: what they show has changed, or may have. */
  clear(): void {
    for (const { entries } of [this.#plain, this.#withParameters]) {
      for (const entry of [...entries.values()]) this.#drop(entry);
    }
    this.#byAddress.clear();
    for (const render of this.#renders) render.isDoubtful = true;
    this.#sharing.clear();
  }

  /** Forgets every page and keeps none until changes are heard of again. */
  turnDeaf(): void {
    this.#isDeaf = true;
    this.clear();
  }

  /** Keeps pages again. What changed meanwhile was not heard. */
  hearAgain(): void {
    this.clear();
    this.#isDeaf = false;
  }

  #keep(key: string, page: CachedPage): void {
    const { entries, limit } = this.#pagesOf(key);
    const old = entries.get(key);
    if (old) this.#drop(old);
    const entry = { key, page };
    entries.set(key, entry);
    for (const fact of page.facts.length > 0 ? page.facts : [unnamed]) {
      const sharers = this.#byFact.get(fact);
      if (sharers) sharers.add(entry);
      else this.#byFact.set(fact, new Set([entry]));
    }
    if (entries.size > limit) {
      const [oldest] = entries.values();
      if (oldest) this.#drop(oldest);
    }
  }

  #drop(entry: Entry): void {
    if (!entry.page) return;
    for (const fact of entry.page.facts.length > 0 ? entry.page.facts : [unnamed]) {
      const sharers = this.#byFact.get(fact);
      sharers?.delete(entry);
      if (sharers?.size === 0) this.#byFact.delete(fact);
    }
    // Addresses that lead to it find it empty.
    entry.page = null;
    this.#pagesOf(entry.key).entries.delete(entry.key);
  }
}

function isOutdated({ facts }: CachedPage, { changed, isDoubtful }: Render): boolean {
  if (isDoubtful) return true;
  return facts.length > 0 ? facts.some((fact) => changed.has(fact)) : changed.size > 0;
}
