// Renders pages with React Router, and adds the content security policy, headers and encodings.
import { createRequestHandler, RouterContextProvider, type ServerBuild } from 'react-router';
import { settingsTag } from '../../domain/cache-tags.ts';
import { createStore } from '../../supabase/store.ts';
import type { PublicConfig, shopContext } from '../../web/lib/shop-context.ts';
import { requestIdHeader, showRequestId } from '../http/request-id.ts';
import type { Log } from '../monitoring/log.ts';
import { contentSecurityPolicy } from './content-security-policy.ts';
import { deferScripts } from './defer-scripts.ts';
import { gateScripts, startScripts } from './gate-scripts.ts';
import { type CachedPage, finishPage, type PageCache } from './page-cache.ts';
import { preloadFirstImage } from './preload-image.ts';

export interface PageRendererOptions {
  /** The built storefront; a function in development, where it changes at run time. */
  build: ServerBuild | (() => Promise<ServerBuild>);
  mode: 'production' | 'development';
  config: PublicConfig;
  /** Origin of the services, as this server calls them. */
  servicesUrl: string;
  /** Reaches the services without the network. Absent: over HTTP. */
  serviceFetch?: typeof fetch;
  /** Keeps the settings, which every page reads, until they change. */
  pages: PageCache;
  /** Headers that report a visitor's IP address to the services. */
  nameVisitor: (address: string) => Record<string, string>;
  log: Log;
}

/** The database's clock decides, and may be slow: so soon after a change by itself a page may show the state before it. */
const maxClockDifferenceMs = 60_000;

/**
 * Renders a page.
 * @param use a cached page is sent to every client that requests it
 * @param callFunction wraps calls of functions, which may wait for a third party. Default: calls them directly
 */
export type PageRenderer = (
  request: Request,
  use: 'cached' | 'once',
  callFunction?: <T>(call: () => Promise<T>) => Promise<T>,
) => Promise<CachedPage>;

/**
 * Creates the renderer.
 * @returns a function that renders whole pages, and the data of pages that the browser navigates to
 */
export function createPageRenderer(options: PageRendererOptions): PageRenderer {
  const { build, mode, config, servicesUrl, serviceFetch, pages, nameVisitor, log } = options;
  const settingsUrl = `${servicesUrl}/rest/v1/${settingsTag}?`;
  const readSettings = async (url: string, read: () => Promise<Response>) => {
    const { status, headers, bodies } = await pages.getOrRender(url, 'identity', async () => {
      const answer = await read();
      const body = Buffer.from(await answer.arrayBuffer());
      return finishPage(answer.status, Object.fromEntries(answer.headers), body, [settingsTag]);
    });
    return new Response(new Uint8Array(bodies.identity), { status, headers });
  };
  const handle = createRequestHandler(build, mode);
  const connectTo = connectOrigins(config);
  return async (request, use, callFunction = (call) => call()) => {
    const address = request.headers.get('x-forwarded-for');
    const requestId = request.headers.get(requestIdHeader);
    const tags = new Set<string>();
    const tables = new Set<string>();
    let reads = 0;
    let expiresAt = Number.POSITIVE_INFINITY;
    const store = createStore(
      { url: servicesUrl, key: config.key },
      {
        fetch: (input, init) => {
          const [, table] = /\/rest\/v1\/(\w+)(?:\?|$)/.exec(addressOf(input)) ?? [];
          if (table) tables.add(table);
          reads += 1;
          const call = () => (serviceFetch ?? fetch)(input, init);
          const url = addressOf(input);
          if (url.startsWith(settingsUrl)) return readSettings(url, call);
          return url.startsWith(`${servicesUrl}/functions/`) ? callFunction(call) : call();
        },
        // A cached page must not depend on the client that requested it first.
        headers:
          address && use === 'once'
            ? { ...nameVisitor(address), ...(requestId ? { [requestIdHeader]: requestId } : {}) }
            : {},
      },
    );
    const context = new RouterContextProvider();
    const { shopContext, addStyleSheet } = await entryOf(build);
    context.set(shopContext, {
      store,
      config,
      onError: (error) =>
        log.error(
          { requestId, error: (error as Error)?.stack ?? String(error) },
          'a page could not be rendered',
        ),
      addCacheTags: (...names) => names.forEach((name) => void tags.add(name)),
      cacheUntil(time) {
        const [at, now] = [Date.parse(time ?? ''), Date.now()];
        if (at > now - maxClockDifferenceMs) expiresAt = Math.min(expiresAt, Math.max(at, now + 1000));
      },
    });
    const response = await handle(request, context);
    let body = Buffer.from(await response.arrayBuffer());
    const headers: Record<string, string> = {};
    for (const [name, value] of response.headers) headers[name] = value;
    delete headers['content-length'];
    if (headers['content-type']?.startsWith('text/html')) {
      let html = body.toString();
      // The development server needs connections that the shop's policy does not allow.
      if (mode === 'production') {
        html = isStaffPage(request) ? startScripts(html) : deferScripts(preloadFirstImage(html));
        html = gateScripts(html);
        if (response.status >= 500 && requestId) html = showRequestId(html, requestId);
        headers['content-security-policy'] = contentSecurityPolicy(html, connectTo);
      }
      // Last, because it is longer than all the rest.
      body = Buffer.from(addStyleSheet(html));
    }
    headers['cache-control'] ??= use === 'cached' ? 'no-cache' : 'private, no-store';
    // A table read without a more specific tag: the page depends on all of its rows.
    for (const table of tables) {
      if (![...tags].some((tag) => tag === table || tag.startsWith(`${table}:`))) tags.add(table);
    }
    if (use === 'cached') {
      const { pathname, search } = new URL(request.url);
      log.debug({ page: pathname + search, reads, tags: [...tags] }, 'page rendered');
    }
    return finishPage(response.status, headers, body, [...tags], expiresAt);
  };
}

/** What `web/entry.server.tsx` exports for the renderer. */
interface Entry {
  shopContext: typeof shopContext;
  addStyleSheet: (html: string) => string;
}

// The built pages hold a copy of the context's module: a value reaches their loaders only under that copy's key.
async function entryOf(build: PageRendererOptions['build']): Promise<Entry> {
  const { entry } = typeof build === 'function' ? await build() : build;
  return entry.module as unknown as Entry;
}

const addressOf = (input: Parameters<typeof fetch>[0]): string =>
  typeof input === 'string' ? input : input instanceof URL ? input.href : input.url;

/** Staff screens are empty before their scripts run, so their scripts are not deferred. */
function isStaffPage(request: Request): boolean {
  return /^\/admin(\/|$)/.test(new URL(request.url).pathname);
}

function connectOrigins({ url, publicUrl, analytics }: PublicConfig): string[] {
  // Older browsers do not count a WebSocket to the page's own host as 'self'.
  const origins = new Set([url || publicUrl, publicUrl].map((address) => new URL(address).origin));
  const services = [...origins].flatMap((origin) => [origin, origin.replace(/^http/, 'ws')]);
  return analytics.url ? [...services, new URL(analytics.url).origin] : services;
}
