// The shop's service worker: the catalogue and the order one follows stay readable without a network. With one, every page
// comes from the network: a kept price is never shown while a fresh one can be had.
import { clientsClaim } from 'workbox-core';
import type { WorkboxPlugin } from 'workbox-core/types.js';
import { ExpirationPlugin, type ExpirationPluginOptions } from 'workbox-expiration';
import { registerRoute } from 'workbox-routing';
import { CacheFirst, NetworkFirst, type Strategy } from 'workbox-strategies';
import { filesOf, keptAs, otherSizesOf, smallPicturesOf } from './what-is-kept.ts';

interface Lasting extends Event {
  waitUntil(work: Promise<unknown>): void;
}
interface Navigation extends Lasting {
  clientId: string;
  resultingClientId: string;
}
interface Message extends Lasting {
  data: unknown;
  source: { id: string } | null;
  ports: readonly MessagePort[];
}
/** The part of a worker's global scope that is used; the project's types are those of windows. */
interface WorkerScope {
  skipWaiting(): Promise<void>;
  clients: { get(id: string): Promise<{ url: string } | undefined> };
  addEventListener(type: 'install' | 'activate', listener: (event: Lasting) => void): void;
  addEventListener(type: 'message', listener: (event: Message) => void): void;
}
const worker = self as unknown as WorkerScope;
const { origin } = self.location;

// A new number discards caches of another format.
const names = {
  shell: 'jani-shell-1',
  page: 'jani-pages-1',
  order: 'jani-order-1',
  file: 'jani-files-1',
  picture: 'jani-pictures-1',
};
const offlinePage = '/offline.html';
const keptSince = 'x-kept-since';
const mostPages = 30;
const week = 7 * 24 * 60 * 60;
/** When an offline page was cached, by the window that received it. */
const answeredFromKept = new Map<string, string>();

worker.addEventListener('install', (event) => {
  event.waitUntil(
    caches
      .open(names.shell)
      .then((shell) => shell.addAll([offlinePage, '/favicon.svg']))
      // Whoever has a page open under the last version loses nothing: its files stay in the cache.
      .then(() => worker.skipWaiting()),
  );
});
worker.addEventListener('activate', (event) => {
  const current = new Set<string>(Object.values(names));
  event.waitUntil(
    caches
      .keys()
      .then((found) => found.filter((name) => name.startsWith('jani-') && !current.has(name)))
      .then((outdated) => Promise.all(outdated.map((name) => caches.delete(name)))),
  );
});
clientsClaim();

/** Only complete pages, dated, by their path without the query string, which filters them. */
const asPage = {
  async cacheWillUpdate({ response }: { response: Response }) {
    if (response.status !== 200 || response.redirected) return null;
    if (!response.headers.get('content-type')?.startsWith('text/html')) return null;
    const headers = new Headers(response.headers);
    headers.set(keptSince, new Date().toISOString());
    // The cached body is not compressed.
    headers.delete('content-encoding');
    headers.delete('content-length');
    return new Response(await response.blob(), { status: 200, headers });
  },
  async cacheKeyWillBeUsed({ request }: { request: Request }) {
    return origin + new URL(request.url).pathname;
  },
  async cachedResponseWillBeUsed({ cachedResponse, event }: { cachedResponse?: Response; event: unknown }) {
    const window = (event as Navigation | undefined)?.resultingClientId;
    const since = cachedResponse?.headers.get(keptSince);
    if (window && since) answeredFromKept.set(window, since);
    return cachedResponse ?? null;
  },
};

const bounded = (bounds: ExpirationPluginOptions) => new ExpirationPlugin(bounds) as WorkboxPlugin;

const strategies: Record<'page' | 'order' | 'file' | 'picture', Strategy> = {
  page: new NetworkFirst({
    cacheName: names.page,
    plugins: [asPage, bounded({ maxEntries: mostPages, maxAgeSeconds: 4 * week })],
  }),
  // Only the currently tracked order stays cached.
  order: new NetworkFirst({
    cacheName: names.order,
    plugins: [asPage, bounded({ maxEntries: 1, maxAgeSeconds: week })],
  }),
  file: new CacheFirst({
    cacheName: names.file,
    plugins: [bounded({ maxEntries: 150, maxAgeSeconds: 8 * week })],
  }),
  picture: new CacheFirst({
    cacheName: names.picture,
    plugins: [bounded({ maxEntries: 160, maxAgeSeconds: week, purgeOnQuotaError: true })],
  }),
};

registerRoute(
  ({ url, request }) => {
    const kind = keptAs(url, origin);
    return (
      request.mode === 'navigate' &&
      url.origin === origin &&
      (kind === 'page' || kind === 'order' || isPublic(url))
    );
  },
  async ({ url, request, event }) => {
    const kind = keptAs(url, origin);
    try {
      if (kind === 'page' || kind === 'order') {
        return await strategies[kind].handle({ request, event });
      }
      return await fetch(request);
    } catch {
      return offlineAnswer();
    }
  },
);
/** A page of the storefront that is not cached and has its own offline text. */
const isPublic = ({ pathname }: URL): boolean =>
  !/^\/(?:admin|api|rest|auth|storage|functions|realtime|share)(?:\/|$)/.test(pathname) &&
  !/\.\w+$/.test(pathname);

registerRoute(
  ({ url, request }) => {
    const kind = keptAs(url, origin);
    return request.method === 'GET' && (kind === 'file' || kind === 'picture');
  },
  async ({ url, request, event }) => {
    // The files of staff screens are not cached.
    const { clientId } = event as unknown as Navigation;
    const window = clientId ? await worker.clients.get(clientId) : undefined;
    if (window && new URL(window.url).pathname.startsWith('/admin')) return fetch(request);
    const kind = keptAs(url, origin) === 'file' ? 'file' : 'picture';
    try {
      return await strategies[kind].handle({ request, event });
    } catch (error) {
      const pictures = await caches.open(names.picture);
      for (const other of otherSizesOf(url.pathname)) {
        const found = await pictures.match(other);
        if (found) return found;
      }
      throw error;
    }
  },
);

async function offlineAnswer(): Promise<Response> {
  const page = await caches.match(offlinePage);
  if (!page) return Response.error();
  const readable = [
    ...(await (await caches.open(names.order)).keys()),
    ...(await (await caches.open(names.page)).keys()),
  ].map(({ url }) => new URL(url).pathname);
  const links = readable
    .filter((path) => path !== '/track-order')
    .slice(0, 12)
    .map((path) => `<li><a href="${path}">${titleOf(path)}</a></li>`);
  const html = (await page.text()).replace(
    '<!-- kept -->',
    links.length > 0 ? `<h2>Still here to read</h2><ul>${links.join('')}</ul>` : '',
  );
  const headers = new Headers(page.headers);
  for (const name of ['content-encoding', 'content-length']) headers.delete(name);
  return new Response(html, { status: 503, headers });
}

// Only paths that `keptAs` accepts: letters, digits and hyphens.
function titleOf(path: string): string {
  if (path === '/') return 'Home';
  const last = path.split('/').at(-1) ?? '';
  if (path.startsWith('/track-order/')) return `Order ${last}`;
  const words = last.replaceAll('-', ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}

worker.addEventListener('message', (event) => {
  const told = event.data as {
    type?: unknown;
    pages?: unknown;
    files?: unknown;
    withPictures?: unknown;
  } | null;
  if (told?.type === 'since') {
    event.ports[0]?.postMessage((event.source && answeredFromKept.get(event.source.id)) ?? null);
  }
  if (told?.type === 'keep') {
    event.waitUntil(keep(event, paths(told.pages), paths(told.files), told.withPictures === true));
  }
});

const paths = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((path): path is string => typeof path === 'string').slice(0, 100) : [];

/** Keeps pages that were reached without loading them as a whole, with all they need to be shown. */
async function keep(event: Message, pages: string[], files: string[], withPictures: boolean): Promise<void> {
  const wanted = new Set(files);
  for (const path of pages) {
    const url = new URL(path, origin);
    const kind = keptAs(url, origin);
    if (kind !== 'page' && kind !== 'order') continue;
    const answer = await strategies[kind]
      .handle({ request: new Request(url.href, { credentials: 'same-origin' }), event })
      .catch(() => null);
    const html = (await answer?.text()) ?? '';
    for (const file of filesOf(html)) wanted.add(file);
    if (url.pathname.startsWith('/shop/') || kind === 'order') {
      for (const file of smallPicturesOf(html, 4)) wanted.add(file);
    }
    if (withPictures && url.pathname === '/shop')
      for (const file of smallPicturesOf(html, 60)) wanted.add(file);
  }
  for (const file of wanted) {
    const url = new URL(file, origin);
    const kind = keptAs(url, origin);
    if (kind !== 'file' && kind !== 'picture') continue;
    await strategies[kind].handle({ request: new Request(url.href), event }).catch(() => null);
  }
}
