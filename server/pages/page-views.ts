// Receives page views from the storefront in Plausible's event protocol, collects them briefly and counts
// them in the database. No data of visitors is stored; IP addresses are used in memory, to limit views per network.

import { networksOf } from '@jani-juice/backend/limits';
import { isbot } from 'isbot';
import { readBody } from '../http/read-body.ts';

export interface PageViewsOptions {
  /** Adds views to the counts of today. */
  record(views: { path: string; views: number }[]): Promise<void>;
  onError: (error: unknown) => void;
  /** Milliseconds from the first collected view to the write. */
  writeAfterMs?: number;
  /**
   * Maximum views per IPv4 address or IPv6 /64 in ten minutes; the widest network of an address has eight times as many. Default:
   * 10,000, because mobile networks put thousands of people behind one address.
   */
  maxViewsPerNetwork?: number;
}

export interface PageViews {
  /** Answers a report with 202 whether it is counted or not, as in the protocol. */
  fetch(request: Request): Promise<Response>;
  /** Writes collected views. */
  close(): Promise<void>;
}

/** Maximum bytes of a report. */
const maxReportBytes = 8 * 1024;
const maxUserAgentLength = 1000;
const maxPendingPaths = 500;
const maxNetworks = 50_000;
const windowMs = 10 * 60 * 1000;

export function createPageViews({
  record,
  onError,
  writeAfterMs = 2000,
  maxViewsPerNetwork = 10_000,
}: PageViewsOptions): PageViews {
  let pendingViews = new Map<string, number>();
  let timer: NodeJS.Timeout | null = null;
  let writing: Promise<void> = Promise.resolve();
  const counts = new Map<string, number>();
  let windowEnds = 0;

  const isCountedWithin = (network: string, maxViews: number): boolean => {
    const views = (counts.get(network) ?? 0) + 1;
    if (views > maxViews || (views === 1 && counts.size >= maxNetworks)) return false;
    counts.set(network, views);
    return true;
  };
  const isWithinLimits = (address: string): boolean => {
    if (Date.now() >= windowEnds) {
      counts.clear();
      windowEnds = Date.now() + windowMs;
    }
    const networks = networksOf(address);
    // The wide network first: above its limit it adds no more narrow ones to the memory.
    return (
      isCountedWithin(networks.at(-1) ?? '', 8 * maxViewsPerNetwork) &&
      isCountedWithin(networks[0] ?? '', maxViewsPerNetwork)
    );
  };

  const write = () => {
    if (timer) clearTimeout(timer);
    timer = null;
    const views = [...pendingViews].map(([path, count]) => ({ path, views: count }));
    pendingViews = new Map();
    if (views.length > 0) writing = writing.then(() => record(views)).catch(onError);
    return writing;
  };

  const count = (path: string) => {
    const isKnown = pendingViews.has(path);
    const page = isKnown || (path.length <= 300 && pendingViews.size < maxPendingPaths) ? path : 'other';
    pendingViews.set(page, (pendingViews.get(page) ?? 0) + 1);
    timer ??= setTimeout(write, writeAfterMs);
  };

  return {
    async fetch(request) {
      if (request.method !== 'POST') {
        return new Response('Page views are posted.\n', { status: 405, headers: { allow: 'POST' } });
      }
      const body = await readBody(request, maxReportBytes);
      if (!body) {
        return new Response('This report is too large.\n', { status: 413, headers: { connection: 'close' } });
      }
      const path = reportedPath(Buffer.from(body).toString());
      if (path === 'unreadable')
        return new Response('This is not a report of a page view.\n', { status: 400 });
      const userAgent = request.headers.get('user-agent');
      const isCounted =
        path !== null &&
        userAgent !== null &&
        userAgent.length <= maxUserAgentLength &&
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

/** @returns the path of the viewed page, null for another event, 'unreadable' for an invalid report */
function reportedPath(body: string): string | null | 'unreadable' {
  try {
    const report: unknown = JSON.parse(body);
    if (typeof report !== 'object' || report === null) return 'unreadable';
    // Plausible's older scripts use short names.
    const { name, n, url, u } = report as Record<string, unknown>;
    const [event, page] = [name ?? n, url ?? u];
    if (typeof event !== 'string' || typeof page !== 'string') return 'unreadable';
    const { pathname, protocol } = new URL(page);
    return event === 'pageview' && /^https?:$/.test(protocol) ? pathname : null;
  } catch {
    return 'unreadable';
  }
}

/** Rejects reports from other sites, which could cause false views. */
function isForeign(request: Request): boolean {
  const origin = request.headers.get('origin');
  if (!origin) return false;
  return (
    !URL.canParse(origin) ||
    new URL(origin).host !== (request.headers.get('host') ?? new URL(request.url).host)
  );
}
