// Measures a first visit: total bytes, bytes before the largest contentful paint, gzip size of the scripts.
// Lighthouse's mobile emulation on slow 4G, in Chromium with an empty cache.
import type { Browser } from 'playwright-core';

export interface FirstVisit {
  /** Bytes over the network, headers included, until the page is hydrated and the network idle. */
  total: number;
  /** Bytes until the largest contentful paint, and until the largest image of the first screen has loaded. */
  beforeLargestPaint: number;
  /** The largest contentful paint: file name or element. */
  largest: string;
  largestContentfulPaintMs: number;
  /** Gzip size of the scripts. */
  scripts: number;
  /** Every request: its name, bytes, and the time of its last byte in ms after the start. */
  requests: { path: string; kind: string; bytes: number; doneMs: number }[];
}

/** Slow 4G as Lighthouse has it: 1.6 Mbit/s, 150 ms there and back. */
const slow4g = {
  offline: false,
  latency: 150,
  downloadThroughput: (1.6 * 1024 * 1024) / 8,
  uploadThroughput: (750 * 1024) / 8,
};

/**
 * Measures the first visit of a page.
 * @param browser a Chromium
 * @param url full URL of the page
 * @param options.isSlow whether the line is slow 4G. Default: true
 */
export async function firstVisit(
  browser: Browser,
  url: string,
  { isSlow = true }: { isSlow?: boolean } = {},
): Promise<FirstVisit> {
  const context = await browser.newContext({
    viewport: { width: 412, height: 823 },
    deviceScaleFactor: 1.75,
    isMobile: true,
    hasTouch: true,
    serviceWorkers: 'block',
  });
  const page = await context.newPage();
  const network = await context.newCDPSession(page);
  await network.send('Network.enable');
  if (isSlow) await network.send('Network.emulateNetworkConditions', slow4g);
  await network.send('Emulation.setCPUThrottlingRate', { rate: 4 });

  const kinds = new Map<string, { path: string; kind: string; bytes: number; done: number }>();
  const pieces: { at: number; bytes: number }[] = [];
  let began = 0;
  network.on('Network.requestWillBeSent', ({ requestId, request, timestamp, type }) => {
    began ||= timestamp;
    const { pathname, search } = new URL(request.url);
    kinds.set(requestId, { path: pathname + search, kind: type ?? '', bytes: 0, done: 0 });
  });
  network.on('Network.responseReceived', ({ requestId, timestamp, response }) => {
    // Response headers.
    const head = response.encodedDataLength;
    pieces.push({ at: timestamp, bytes: head });
    const kind = kinds.get(requestId);
    if (kind) kind.bytes += head;
  });
  network.on('Network.dataReceived', ({ requestId, timestamp, encodedDataLength }) => {
    pieces.push({ at: timestamp, bytes: encodedDataLength });
    const kind = kinds.get(requestId);
    if (kind) kind.bytes += encodedDataLength;
  });
  network.on('Network.loadingFailed', ({ requestId, timestamp }) => {
    const kind = kinds.get(requestId);
    if (kind) kind.done = timestamp;
  });
  network.on('Network.loadingFinished', ({ requestId, timestamp, encodedDataLength }) => {
    const kind = kinds.get(requestId);
    if (!kind) return;
    kind.done = timestamp;
    // The chunks of a compressed document have no encoded size.
    const untold = encodedDataLength - kind.bytes;
    if (untold <= 0) return;
    kind.bytes += untold;
    pieces.push({ at: timestamp, bytes: untold });
  });

  /** Resolves once the network is idle. */
  const silence = async () => {
    const deadline = Date.now() + 20_000;
    let lastCount = -1;
    while (
      Date.now() < deadline &&
      (lastCount !== pieces.length || [...kinds.values()].some(({ done }) => !done))
    ) {
      lastCount = pieces.length;
      await new Promise((done) => setTimeout(done, 700));
    }
  };

  await page.addInitScript(() => {
    const measured = window as unknown as { largest: { at: number; what: string } };
    measured.largest = { at: 0, what: '' };
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries() as (PerformanceEntry & { url: string; element?: Element })[]) {
        measured.largest = { at: entry.startTime, what: entry.url || (entry.element?.tagName ?? '') };
      }
    }).observe({ type: 'largest-contentful-paint', buffered: true });
  });
  await page.goto(url, { waitUntil: 'load' });
  await page.waitForFunction(() => !('unpainted' in document.documentElement.dataset));
  await silence();
  const largest = await page.evaluate(() => {
    const { largest } = window as unknown as { largest: { at: number; what: string } };
    // Without named inner functions: the loader would add helpers to them that do not exist in the page.
    const [image] = [...document.images]
      .filter(({ currentSrc }) => currentSrc !== '')
      .map((one) => ({ one, box: one.getBoundingClientRect() }))
      .map(({ one, box }) => ({
        src: one.currentSrc,
        visible:
          Math.max(0, Math.min(box.right, innerWidth) - Math.max(box.left, 0)) *
          Math.max(0, Math.min(box.bottom, innerHeight) - Math.max(box.top, 0)),
      }))
      .filter(({ visible }) => visible > 0)
      .sort((a, b) => b.visible - a.visible);
    const fetched = image && performance.getEntriesByName(image.src)[0];
    const imageAt = fetched ? (fetched as PerformanceResourceTiming).responseEnd : 0;
    return { ...largest, imageAt };
  });
  await context.close();

  const requests = [...kinds.values()].map(({ path, kind, bytes, done }) => ({
    path,
    kind,
    bytes,
    doneMs: Math.round((done - began) * 1000),
  }));
  const scripts = requests.filter(({ kind, bytes }) => kind === 'Script' && bytes > 0);
  const sizes = await Promise.all(scripts.map(({ path }) => gzipSize(new URL(path, url))));
  const paintedAt = began + Math.max(largest.at, largest.imageAt) / 1000;
  const sum = (all: { bytes: number }[]) => all.reduce((total, { bytes }) => total + bytes, 0);
  return {
    total: sum(pieces),
    beforeLargestPaint: sum(pieces.filter(({ at }) => at <= paintedAt)),
    largest: largest.what.split('/').at(-1) ?? '',
    largestContentfulPaintMs: Math.round(largest.at),
    scripts: sizes.reduce((total, size) => total + size, 0),
    requests,
  };
}

async function gzipSize(url: URL): Promise<number> {
  const answer = await fetch(url, { headers: { 'accept-encoding': 'gzip' } });
  await answer.arrayBuffer();
  // The encoded length, as in Content-Length.
  return Number(answer.headers.get('content-length'));
}
