// Page views as the storefront reports them, in the words of Plausible's event protocol: gathered for a moment, then
// counted in the database. Nothing of a visitor is kept; the address only limits how often one may be counted, in memory.
import { isbot } from 'isbot';
import { networkOf } from '../backend/network.ts';
import { boundedRequest } from './bounded-request.ts';

export interface PageViewsOptions {
  /** Adds views to the counts of today. */
  record(views: { path: string; views: number }[]): Promise<void>;
  onFault: (error: unknown) => void;
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
const mostWaiting = 500;
const mostAddresses = 20_000;
/** Mobile networks put thousands behind one address, so this only stops machines. */
const mostPerAddress = 1000;
const windowMs = 10 * 60 * 1000;

/** Makes the receiver. */
export function createPageViews({ record, onFault, writeAfterMs = 2000 }: PageViewsOptions): PageViews {
  let waiting = new Map<string, number>();
  let timer: NodeJS.Timeout | null = null;
  let writing: Promise<void> = Promise.resolve();
  const seen = new Map<string, number>();
  let windowEnds = 0;

  const isTooMany = (address: string): boolean => {
    if (Date.now() >= windowEnds) {
      seen.clear();
      windowEnds = Date.now() + windowMs;
    }
    const views = (seen.get(address) ?? 0) + 1;
    if (views === 1 && seen.size >= mostAddresses) return true;
    seen.set(address, views);
    return views > mostPerAddress;
  };

  const write = () => {
    if (timer) clearTimeout(timer);
    timer = null;
    const views = [...waiting].map(([path, count]) => ({ path, views: count }));
    waiting = new Map();
    if (views.length > 0) writing = writing.then(() => record(views)).catch(onFault);
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
      const bounded = await boundedRequest(request, largestReport);
      if (!bounded) {
        return new Response('This report is too large.\n', { status: 413, headers: { connection: 'close' } });
      }
      const path = reportedPath(await bounded.text());
      if (path === 'unreadable') return new Response('This is no report.\n', { status: 400 });
      const userAgent = request.headers.get('user-agent');
      const isCounted =
        path !== null &&
        userAgent !== null &&
        !isbot(userAgent) &&
        !isForeign(request) &&
        !isTooMany(networkOf(request.headers.get('x-forwarded-for') ?? ''));
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
