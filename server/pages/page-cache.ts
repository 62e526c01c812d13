// Cache of rendered storefront pages, compressed, until the database reports a change of their content.
import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import {
  listParameters,
  pageNumberIn,
  searchIn,
  sitemapPartIn,
  sortOrders,
} from '../../domain/products/catalogue.ts';

const [toBrotli, toGzip] = [promisify(brotliCompress), promisify(gzip)];

export type Encoding = 'br' | 'gzip' | 'identity';

/** A response: its headers, and its body in each requested encoding. */
export interface CachedPage {
  status: number;
  headers: Record<string, string>;
  etag: string;
  bodies: Partial<Record<Encoding, Buffer>> & { identity: Buffer };
  /** Cache tags. Without tags it depends on everything. */
  tags: readonly string[];
  /** When it changes without a change in the database: epoch ms. */
  expiresAt: number;
}

/** Query parameters that a page depends on. Others, such as campaign tags, are ignored. */
const pageParameters: Record<string, readonly string[]> = {
  '/': [],
  '/shop': listParameters,
  '/contact': [],
  '/delivery': [],
  '/track-order': [],
  '/sitemap.xml': ['part'],
  '/robots.txt': [],
  '/manifest.webmanifest': [],
};
const productPage = /^\/shop\/[a-z0-9-]{1,200}$/;
const groupPage = /^\/(?:flavors|brands)\/[a-z0-9-]{1,200}$/;

/**
 * The cache key of a page, which is also the URL that it is rendered from.
 * @param url path and query of a request
 * @returns null when the page may be personal or does not belong to the storefront
 */
export function pageKey(url: URL): string | null {
  if (!isPath.test(url.pathname)) return null;
  const isData = url.pathname.endsWith('.data');
  const path = isData ? url.pathname.replace(/\/?(_root|_|)\.data$/, '') || '/' : url.pathname;
  const parameters = productPage.test(path)
    ? []
    : groupPage.test(path)
      ? ['page']
      : Object.hasOwn(pageParameters, path)
        ? pageParameters[path]
        : undefined;
  if (!parameters) return null;
  if (path === '/track-order' && (url.searchParams.has('tracking') || url.searchParams.has('key')))
    return null;
  const used = parameters.flatMap((name) => {
    const value = usedValue(name, url.searchParams);
    return value ? [`${name}=${encodeURIComponent(value)}`] : [];
  });
  const routes = isData ? url.searchParams.get('_routes') : null;
  if (routes !== null) used.push(`_routes=${encodeURIComponent(routes)}`);
  const key = `${url.pathname}?${used.join('&')}`;
  return key.length <= 500 ? key : null;
}

/** The value of a parameter as the shop page reads it (`readCatalogueQuery`); null where it has no effect. */
function usedValue(name: string, parameters: URLSearchParams): string | null {
  if (name === 'search') return searchIn(parameters);
  if (name === 'page') {
    const page = pageNumberIn(parameters);
    return page > 1 ? String(page) : null;
  }
  if (name === 'part') return sitemapPartIn(parameters)?.toString() ?? null;
  const value = parameters.get(name);
  if (name !== 'sort' && name !== 'filter') return value;
  const isOverridden = name === 'filter' && parameters.has('sort');
  return !isOverridden && sortOrders.some((order) => order === value) ? value : null;
}

/**
 * Creates a page from rendered content.
 * @param body the page's bytes
 * @param tags cache tags of the page
 * @param expiresAt when it changes by itself, in epoch ms. Default: never
 */
export function finishPage(
  status: number,
  headers: Record<string, string>,
  body: Buffer,
  tags: readonly string[] = [],
  expiresAt = Number.POSITIVE_INFINITY,
): CachedPage {
  const etag = `W/"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`;
  return { status, headers, etag, bodies: { identity: body }, tags, expiresAt };
}

/**
 * Compresses a page's body.
 * @param effort `best` takes fifteen times as long as `quick` and saves a tenth of the bytes
 */
export async function compress(body: Buffer, encoding: Encoding, effort: 'quick' | 'best'): Promise<Buffer> {
  if (encoding === 'identity') return body;
  // A page fits into one piece.
  const chunkSize = 32 * 1024;
  if (encoding === 'gzip') return toGzip(body, { chunkSize, level: effort === 'best' ? 8 : 4 });
  return toBrotli(body, {
    chunkSize,
    params: {
      [constants.BROTLI_PARAM_QUALITY]: effort === 'best' ? 9 : 4,
      [constants.BROTLI_PARAM_SIZE_HINT]: body.length,
    },
  });
}

/** Adds a page's body in an encoding, compressed quickly, unless it exists. */
export async function encodePage({ bodies }: CachedPage, encoding: Encoding): Promise<void> {
  bodies[encoding] ??= await compress(bodies.identity, encoding, 'quick');
}

// A path that starts with `//` names another host.
const isPath = /^\/(?![/\\])/;

/** A stored page. */
interface Entry {
  key: string;
  page: CachedPage;
  bytes: number;
}

/** Entries of one kind, the most recently used last. */
interface Pages {
  maxBytes: number;
  bytes: number;
  entries: Map<string, Entry>;
}

/** Changes since a render began. */
interface Render {
  changed: Set<string>;
  /** Whether anything may have changed. */
  isDoubtful: boolean;
}

/** Stands for the tags of a page without tags. */
const anything = '';
/** Approximate memory of an entry besides its bodies. */
const entryBytes = 4 * 1024;
/** Requested URLs that are cached with their page. */
const maxUrls = 1000;

/**
 * Caches pages by key until one of their tags changes or they expire. Bounded in bytes; the least recently used page is dropped first. Pages with
 * parameters have a bound of their own, so that searches do not drop other pages.
 */
export class PageCache {
  readonly #plain: Pages;
  readonly #withParameters: Pages;
  readonly #byTag = new Map<string, Set<Entry>>();
  // Keys by requested URL, so that a hit parses nothing.
  readonly #keysByUrl = new Map<string, string>();
  readonly #sharing = new Map<string, Promise<CachedPage>>();
  readonly #renders = new Set<Render>();
  #improving: Promise<unknown> = Promise.resolve();
  #isPaused = false;

  /** @param maxBytes of all encodings of all pages; a fifth of it for pages with parameters. Default: 32 MiB */
  constructor(maxBytes = 32 * 1024 * 1024) {
    this.#plain = { maxBytes: maxBytes * 0.8, bytes: 0, entries: new Map() };
    this.#withParameters = { maxBytes: maxBytes * 0.2, bytes: 0, entries: new Map() };
  }

  /** Bytes of the stored pages. */
  get bytes(): number {
    return this.#plain.bytes + this.#withParameters.bytes;
  }

  get(key: string): CachedPage | undefined {
    const { entries } = this.#pagesOf(key);
    const entry = entries.get(key);
    if (!entry) return undefined;
    if (entry.page.expiresAt <= Date.now()) {
      this.#drop(entry);
      return undefined;
    }
    entries.delete(key);
    entries.set(key, entry);
    return entry.page;
  }

  #pagesOf(key: string): Pages {
    return hasParameters(key) ? this.#withParameters : this.#plain;
  }

  /**
   * Finds a stored page by the URL of a request.
   * @param url path and query, as received
   */
  find(url: string): CachedPage | undefined {
    const known = this.#keysByUrl.get(url);
    if (known !== undefined) return this.get(known);
    if (!isPath.test(url) || !URL.canParse(url, 'http://shop')) return undefined;
    const key = pageKey(new URL(url, 'http://shop'));
    const page = key === null ? undefined : this.get(key);
    if (key !== null && page && url.length <= 500) {
      if (this.#keysByUrl.size >= maxUrls) this.#keysByUrl.clear();
      this.#keysByUrl.set(url, key);
    }
    return page;
  }

  /**
   * Returns the stored page or renders it, with its body in an encoding. Concurrent callers share one render. Only pages with status 200
   * are stored, and only if none of their tags changed since the render began. Pages without parameters are compressed better afterwards.
   */
  async getOrRender(key: string, encoding: Encoding, render: () => Promise<CachedPage>): Promise<CachedPage> {
    const page = this.get(key) ?? (await this.#render(key, render));
    await encodePage(page, encoding);
    this.#measure(key, page);
    return page;
  }

  async #render(key: string, render: () => Promise<CachedPage>): Promise<CachedPage> {
    const shared = this.#sharing.get(key);
    if (shared) return shared;
    const began: Render = { changed: new Set(), isDoubtful: false };
    this.#renders.add(began);
    const rendering = render();
    this.#sharing.set(key, rendering);
    try {
      const page = await rendering;
      if (page.status === 200 && !this.#isPaused && !isOutdated(page, began)) this.#store(key, page);
      return page;
    } finally {
      this.#renders.delete(began);
      if (this.#sharing.get(key) === rendering) this.#sharing.delete(key);
    }
  }

  /**
   * Drops the pages that depend on any of these tags.
   * @param tags that have changed
   */
  forget(tags: readonly string[]): void {
    if (tags.length === 0) return;
    for (const tag of [anything, ...tags]) {
      for (const entry of this.#byTag.get(tag) ?? []) this.#drop(entry);
    }
    for (const { changed } of this.#renders) for (const tag of tags) changed.add(tag);
    // A render that began before the change must not be shared with a later request.
    this.#sharing.clear();
  }

  /** Drops every page: any of them may be out of date. */
  clear(): void {
    for (const { entries } of [this.#plain, this.#withParameters]) {
      for (const entry of entries.values()) this.#drop(entry);
    }
    for (const render of this.#renders) render.isDoubtful = true;
    this.#sharing.clear();
  }

  /** Drops every page and stores none until `resume`: changes are not received. */
  pause(): void {
    this.#isPaused = true;
    this.clear();
  }

  /** Stores pages again. Changes during the pause are unknown. */
  resume(): void {
    this.clear();
    this.#isPaused = false;
  }

  #store(key: string, page: CachedPage): void {
    const pages = this.#pagesOf(key);
    const old = pages.entries.get(key);
    if (old) this.#drop(old);
    const entry: Entry = { key, page, bytes: bytesOf(page) };
    if (entry.bytes > pages.maxBytes) return;
    pages.entries.set(key, entry);
    pages.bytes += entry.bytes;
    for (const tag of tagsOf(page)) {
      const sharers = this.#byTag.get(tag);
      if (sharers) sharers.add(entry);
      else this.#byTag.set(tag, new Set([entry]));
    }
    this.#shrink(pages);
    if (!hasParameters(key)) this.#improving = this.#improving.then(() => this.#improve(entry));
  }

  /** One page at a time, after it was sent: the first visitor does not wait for it. */
  async #improve(entry: Entry): Promise<void> {
    const { entries } = this.#pagesOf(entry.key);
    if (entries.get(entry.key) !== entry) return;
    const { identity } = entry.page.bodies;
    const [br, gzip] = await Promise.all([
      compress(identity, 'br', 'best'),
      compress(identity, 'gzip', 'best'),
    ]);
    // A new object, because values cached for the first one, such as its length, do not apply.
    entry.page = { ...entry.page, bodies: { identity, br, gzip } };
    this.#measure(entry.key, entry.page);
  }

  /** Recounts a page's bytes if it is stored. */
  #measure(key: string, page: CachedPage): void {
    const pages = this.#pagesOf(key);
    const entry = pages.entries.get(key);
    if (entry?.page !== page) return;
    const bytes = bytesOf(page);
    pages.bytes += bytes - entry.bytes;
    entry.bytes = bytes;
    this.#shrink(pages);
  }

  #shrink(pages: Pages): void {
    for (const oldest of pages.entries.values()) {
      if (pages.bytes <= pages.maxBytes) return;
      this.#drop(oldest);
    }
  }

  #drop(entry: Entry): void {
    for (const tag of tagsOf(entry.page)) {
      const sharers = this.#byTag.get(tag);
      sharers?.delete(entry);
      if (sharers?.size === 0) this.#byTag.delete(tag);
    }
    const pages = this.#pagesOf(entry.key);
    pages.entries.delete(entry.key);
    pages.bytes -= entry.bytes;
  }
}

function hasParameters(key: string): boolean {
  const parameters = key.indexOf('?') + 1;
  return parameters > 0 && parameters < key.length;
}

const tagsOf = ({ tags }: CachedPage) => (tags.length > 0 ? tags : [anything]);

const bytesOf = ({ bodies: { identity, br, gzip } }: CachedPage) =>
  identity.length + (br?.length ?? 0) + (gzip?.length ?? 0) + entryBytes;

function isOutdated({ tags }: CachedPage, { changed, isDoubtful }: Render): boolean {
  if (isDoubtful) return true;
  return tags.length > 0 ? tags.some((tag) => changed.has(tag)) : changed.size > 0;
}
