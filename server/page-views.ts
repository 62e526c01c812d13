// Page views as the storefront reports them, in the words of Plausible's event protocol: gathered for a moment, then
// counted in the database. Nothing of a visitor is kept; the address only limits how often one may be counted, in memory.
import { isbot } from 'isbot';
import { networksOf } from '../backend/network.ts';
import { readBody } from './read-body.ts';

export interface PageViewsOptions {
  /** Adds views to the counts of today. */
  record(views: { path: string; views: number }[]): Promise<void>;
  onError: (error: unknown) => void;
  /** Milliseconds from the first view that waits until all are written down. */
  writeAfterMs?: number;
}

export interface PageViews {
  /** Answers a report: 202 whether it counts or not, as the protocol does. */
  fetch(request: Request): Promise<Response>;
  /** Writes down what waits. */
  close(): Promise<void>;
}

/** Bytes of a report. */
const largestReport = 8 * 1024;
const longestUserAgent = 1000;
const mostWaiting = 500;
const mostNetworks = 50_000;
/** Views of the narrowest network of an address in a window. Mobile networks put thousands behind one address: this only stops machines. */
const mostPerNetwork = 1000;
/** Views of its widest network. */
const mostPerWideNetwork = 8 * mostPerNetwork;
const windowMs = 10 * 60 * 1000;

/** Makes the receiver. */
export function createPageViews({ record, onError, writeAfterMs = 2000 }: PageViewsOptions): PageViews {
  let waiting = new Map<string, number>();
  let timer: NodeJS.Timeout | null = null;
  let writing: Promise<void> = Promise.resolve();
  const seen = new Map<string, number>();
  let windowEnds = 0;

  const isCountedWithin = (network: string, most: number): boolean => {
    const views = (seen.get(network) ?? 0) + 1;
    if (views > most || (views === 1 && seen.size >= mostNetworks)) return false;
    seen.set(network, views);
    return true;
  };
  const isWithinLimits = (address: string): boolean => {
    if (Date.now() >= windowEnds) {
      seen.clear();
      windowEnds = Date.now() + windowMs;
    }
    const networks = networksOf(address);
    // The wide network first: one that has used up its views adds no more narrow ones to those in memory.
    return (
      isCountedWithin(networks.at(-1) ?? '', mostPerWideNetwork) &&
      isCountedWithin(networks[0] ?? '', mostPerNetwork)
    );
  };

  const write = () => {
    if (timer) clearTimeout(timer);
    timer = null;
    const views = [...waiting].map(([path, count]) => ({ path, views: count }));
    waiting = new Map();
    if (views.length > 0) writing = writing.then(() => record(views)).catch(onError);
    return writing;
  };

  const count = (path: string) => {
    const isKnown = waiting.has(path);
    const page = isKnown || (path.length <= 300 && waiting.size < mostWaiting) ? path : 'other';
    waiting.set(page, (waiting.get(page) ?? 0) + 1);
    timer ??= setTimeout(write, writeAfterMs);
  };

  return {
    async fetch(request) {
      if (request.method !== 'POST') {
        return new Response('Page views are posted.\n', { status: 405, headers: { allow: 'POST' } });
      }
      const body = await readBody(request, largestReport);
      if (!body) {
        return new Response('This report is too large.\n', { status: 413, headers: { connection: 'close' } });
      }
      const path = reportedPath(Buffer.from(body).toString());
      if (path === 'unreadable') return new Response('This is no report.\n', { status: 400 });
      const userAgent = request.headers.get('user-agent');
      const isCounted =
        path !== null &&
        userAgent !== null &&
        userAgent.length <= longestUserAgent &&
        !isbot(userAgent) &&
        !isForeign(request) &&
        isWithinLimits(request.headers.get('x-forwarded-for') ?? '');
      if (!isCounted) return new Response('ok', { status: 202, headers: { 'x-plausible-dropped': '1' } });
      count(path);
      return new Response('ok', { status: 202 });
    },
    close: write,
  };
}

/** @returns the path of the page that was viewed, null for another event, 'unreadable' for what is none */
function reportedPath(body: string): string | null | 'unreadable' {
  try {
    const report: unknown = JSON.parse(body);
    if (typeof report !== 'object' || report === null) return 'unreadable';
    // Plausible's older scripts write the names short.
    const { name, n, url, u } = report as Record<string, unknown>;
    const [event, page] = [name ?? n, url ?? u];
    if (typeof event !== 'string' || typeof page !== 'string') return 'unreadable';
    const { pathname, protocol } = new URL(page);
    return event === 'pageview' && /^https?:$/.test(protocol) ? pathname : null;
  } catch {
    return 'unreadable';
  }
}

/** Another site's page could have its visitors report views that never were. */
function isForeign(request: Request): boolean {
  const origin = request.headers.get('origin');
  if (!origin) return false;
  return (
    !URL.canParse(origin) ||
    new URL(origin).host !== (request.headers.get('host') ?? new URL(request.url).host)
  );
}
