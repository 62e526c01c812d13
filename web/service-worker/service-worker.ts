// The shop's service worker: caches the catalogue and the tracked order for offline reading. Online, pages always
// come from the network, so that a cached price is never shown while a current one is available.
import '../lib/browser/newer-apis.ts';
import { clientsClaim } from 'workbox-core';
import type { WorkboxPlugin } from 'workbox-core/types.js';
import { ExpirationPlugin, type ExpirationPluginOptions } from 'workbox-expiration';
import { registerRoute } from 'workbox-routing';
import { CacheFirst, NetworkFirst, type Strategy } from 'workbox-strategies';
import {
  buildFilesIn,
  cacheKindOf,
  isWholePage,
  orderPageOf,
  otherRenderingsOf,
  smallImagesIn,
} from './cacheable-urls.ts';
import { closeNotices, type NotifyingScope, openNotice, readNotice, showNotice } from './staff-notices.ts';

interface ExtendableEvent extends Event {
  waitUntil(work: Promise<unknown>): void;
}
interface FetchIds extends ExtendableEvent {
  clientId: string;
  resultingClientId: string;
}
interface ClientMessage extends ExtendableEvent {
  data: unknown;
  source: { id: string } | null;
  ports: readonly MessagePort[];
}
interface PushEvent extends ExtendableEvent {
  data: { json(): unknown } | null;
}
interface NotificationEvent extends ExtendableEvent {
  notification: Parameters<typeof openNotice>[1];
}
/** The used part of the worker's global scope; the project's types are those of windows. */
interface WorkerScope extends NotifyingScope {
  skipWaiting(): Promise<void>;
  clients: NotifyingScope['clients'] & { get(id: string): Promise<{ url: string } | undefined> };
  addEventListener(type: 'install' | 'activate', listener: (event: ExtendableEvent) => void): void;
  addEventListener(type: 'message', listener: (event: ClientMessage) => void): void;
  addEventListener(type: 'push', listener: (event: PushEvent) => void): void;
  addEventListener(type: 'notificationclick', listener: (event: NotificationEvent) => void): void;
}
const worker = self as unknown as WorkerScope;
const { origin } = self.location;

// Increment the number to discard caches of an older format.
const cacheNames = {
  shell: 'jani-shell-1',
  page: 'jani-pages-2',
  order: 'jani-order-1',
  file: 'jani-files-1',
  image: 'jani-pictures-1',
};
const offlinePage = '/offline.html';
const cachedAtHeader = 'x-kept-since';
const maxPages = 30;
const weekSeconds = 7 * 24 * 60 * 60;
/** Time at which the page shown in a window was cached, by the window's client id. */
const cachedAtByClient = new Map<string, string>();

worker.addEventListener('install', (event) => {
  event.waitUntil(
    caches
      .open(cacheNames.shell)
      .then((shell) => shell.addAll([offlinePage, '/favicon.svg']))
      // Safe for pages that are open under the previous version: their files stay cached.
      .then(() => worker.skipWaiting()),
  );
});
worker.addEventListener('activate', (event) => {
  const current = new Set<string>(Object.values(cacheNames));
  event.waitUntil(
    caches
      .keys()
      .then((found) => found.filter((name) => name.startsWith('jani-') && !current.has(name)))
      .then((outdated) => Promise.all(outdated.map((name) => caches.delete(name)))),
  );
});
clientsClaim();

/** Caches only complete pages, with the time, by their path without the query string. */
const pagePlugin = {
  async cacheWillUpdate({ request, response }: { request: Request; response: Response }) {
    if (response.status !== 200 || response.redirected || !isWholePage(new URL(request.url))) return null;
    if (!response.headers.get('content-type')?.startsWith('text/html')) return null;
    const headers = new Headers(response.headers);
    headers.set(cachedAtHeader, new Date().toISOString());
    // The cached body is not compressed.
    headers.delete('content-encoding');
    headers.delete('content-length');
    return new Response(await response.blob(), { status: 200, headers });
  },
  async cacheKeyWillBeUsed({ request }: { request: Request }) {
    return origin + new URL(request.url).pathname;
  },
  async cachedResponseWillBeUsed({ cachedResponse, event }: { cachedResponse?: Response; event: unknown }) {
    const window = (event as FetchIds | undefined)?.resultingClientId;
    const since = cachedResponse?.headers.get(cachedAtHeader);
    if (window && since) cachedAtByClient.set(window, since);
    return cachedResponse ?? null;
  },
};

const limited = (bounds: ExpirationPluginOptions) => new ExpirationPlugin(bounds) as WorkboxPlugin;

const strategies: Record<'page' | 'order' | 'file' | 'image', Strategy> = {
  page: new NetworkFirst({
    cacheName: cacheNames.page,
    plugins: [pagePlugin, limited({ maxEntries: maxPages, maxAgeSeconds: 4 * weekSeconds })],
  }),
  // Only the currently tracked order stays cached.
  order: new NetworkFirst({
    cacheName: cacheNames.order,
    plugins: [pagePlugin, limited({ maxEntries: 1, maxAgeSeconds: weekSeconds })],
  }),
  file: new CacheFirst({
    cacheName: cacheNames.file,
    plugins: [limited({ maxEntries: 150, maxAgeSeconds: 8 * weekSeconds })],
  }),
  image: new CacheFirst({
    cacheName: cacheNames.image,
    plugins: [limited({ maxEntries: 160, maxAgeSeconds: weekSeconds, purgeOnQuotaError: true })],
  }),
};

registerRoute(
  ({ url, request }) => {
    const kind = cacheKindOf(url, origin);
    return (
      request.mode === 'navigate' &&
      url.origin === origin &&
      (kind === 'page' || kind === 'order' || isPublic(url))
    );
  },
  async ({ url, request, event }) => {
    const kind = cacheKindOf(url, origin);
    try {
      if (kind === 'page' || kind === 'order') {
        return await strategies[kind].handle({ request, event });
      }
      return await fetch(request);
    } catch {
      return (await storedOrder(url, event as unknown as FetchIds)) ?? offlineResponse();
    }
  },
);
/** The stored page of an order, for a URL with its key or another link to it; null without one. */
async function storedOrder(url: URL, { resultingClientId }: FetchIds): Promise<Response | null> {
  const path = orderPageOf(url, origin);
  if (!path) return null;
  const page = await (await caches.open(cacheNames.order)).match(origin + path);
  if (!page) return null;
  if (url.pathname !== path) return Response.redirect(origin + path);
  const since = page.headers.get(cachedAtHeader);
  if (since) cachedAtByClient.set(resultingClientId, since);
  return page;
}

/** A page of the storefront that is not cached and has its own offline text. */
const isPublic = ({ pathname }: URL): boolean =>
  !/^\/(?:admin|api|rest|auth|storage|functions|realtime|share)(?:\/|$)/.test(pathname) &&
  !/\.\w+$/.test(pathname);

registerRoute(
  ({ url, request }) => {
    const kind = cacheKindOf(url, origin);
    return request.method === 'GET' && (kind === 'file' || kind === 'image');
  },
  async ({ url, request, event }) => {
    // The files of staff screens are not cached.
    const { clientId } = event as unknown as FetchIds;
    const window = clientId ? await worker.clients.get(clientId) : undefined;
    if (window && new URL(window.url).pathname.startsWith('/admin')) return fetch(request);
    const kind = cacheKindOf(url, origin) === 'file' ? 'file' : 'image';
    try {
      return await strategies[kind].handle({ request, event });
    } catch (error) {
      const images = await caches.open(cacheNames.image);
      for (const other of otherRenderingsOf(url.pathname)) {
        const found = await images.match(other);
        if (found) return found;
      }
      throw error;
    }
  },
);

async function offlineResponse(): Promise<Response> {
  const page = await caches.match(offlinePage);
  if (!page) return Response.error();
  const readable = [
    ...(await (await caches.open(cacheNames.order)).keys()),
    ...(await (await caches.open(cacheNames.page)).keys()),
  ].map(({ url }) => new URL(url).pathname);
  const links = readable
    .filter((path) => path !== '/track-order')
    .slice(0, 12)
    .map((path) => `<li><a href="${path}">${titleOf(path)}</a></li>`);
  const html = (await page.text()).replace(
    '<!-- cached pages -->',
    links.length > 0 ? `<h2>Still here to read</h2><ul>${links.join('')}</ul>` : '',
  );
  const headers = new Headers(page.headers);
  for (const name of ['content-encoding', 'content-length']) headers.delete(name);
  return new Response(html, { status: 503, headers });
}

// Only receives paths that `cacheKindOf` accepts: letters, digits and hyphens.
function titleOf(path: string): string {
  if (path === '/') return 'Home';
  const last = path.split('/').at(-1) ?? '';
  if (path.startsWith('/track-order/')) return `Order ${last}`;
  const words = last.replaceAll('-', ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}

worker.addEventListener('message', (event) => {
  const message = event.data as {
    type?: unknown;
    pages?: unknown;
    files?: unknown;
    withPictures?: unknown;
    notice?: unknown;
    ids?: unknown;
  } | null;
  if (message?.type === 'since') {
    event.ports[0]?.postMessage((event.source && cachedAtByClient.get(event.source.id)) ?? null);
  }
  if (message?.type === 'keep') {
    event.waitUntil(
      cacheUrls(event, paths(message.pages), paths(message.files), message.withPictures === true),
    );
  }
  if (message?.type === 'notice') {
    const notice = readNotice(message.notice);
    if (notice) event.waitUntil(showNotice(worker, notice));
  }
  if (message?.type === 'notices-ended') event.waitUntil(closeNotices(worker, paths(message.ids)));
});

// Of staff only: notices by Web Push, and those that the open panel reports.
worker.addEventListener('push', (event) => {
  const notice = readNotice(readJson(event.data));
  if (notice) event.waitUntil(showNotice(worker, notice));
});
worker.addEventListener('notificationclick', (event) => {
  event.waitUntil(openNotice(worker, event.notification));
});

function readJson(data: PushEvent['data']): unknown {
  try {
    return data?.json();
  } catch {
    return null;
  }
}

const paths = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((path): path is string => typeof path === 'string').slice(0, 100) : [];

/** Caches pages that were reached by client-side navigation, with the files that they need. */
async function cacheUrls(
  event: ClientMessage,
  pages: string[],
  files: string[],
  withPictures: boolean,
): Promise<void> {
  const wantedFiles = new Set(files);
  for (const path of pages) {
    const url = new URL(path, origin);
    const kind = cacheKindOf(url, origin);
    if (kind !== 'page' && kind !== 'order') continue;
    const response = await strategies[kind]
      .handle({ request: new Request(url.href, { credentials: 'same-origin' }), event })
      .catch(() => null);
    const html = (await response?.text()) ?? '';
    for (const file of buildFilesIn(html)) wantedFiles.add(file);
    if (url.pathname.startsWith('/shop/') || kind === 'order') {
      for (const file of smallImagesIn(html, 4)) wantedFiles.add(file);
    }
    if (withPictures && url.pathname === '/shop')
      for (const file of smallImagesIn(html, 60)) wantedFiles.add(file);
  }
  for (const file of wantedFiles) {
    const url = new URL(file, origin);
    const kind = cacheKindOf(url, origin);
    if (kind !== 'file' && kind !== 'image') continue;
    await strategies[kind].handle({ request: new Request(url.href), event }).catch(() => null);
  }
}
