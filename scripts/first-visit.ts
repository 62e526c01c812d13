// What a first visit costs: bytes in all, bytes before the largest image has painted, JavaScript as gzip.
// A phone as Lighthouse pretends it, on slow 4G, in a real Chromium with an empty cache.
import type { Browser } from 'playwright-core';

export interface FirstVisit {
  /** Bytes over the network, headers included, until the page is alive and nothing more comes. */
  total: number;
  /** The same until the largest contentful paint, and until the largest image of the first screen is there. */
  beforeLargestPaint: number;
  /** What painted largest: the name of the file, or of the element. */
  largest: string;
  largestPaintMs: number;
  /** The scripts' bodies under gzip. */
  scripts: number;
  /** Every request: what it was, its bytes and when its last byte came, in ms after the visit began. */
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
 * Visits one page for the first time.
 * @param browser a Chromium
 * @param url the page's full address
 */
export async function firstVisit(browser: Browser, url: string): Promise<FirstVisit> {
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
  await network.send('Network.emulateNetworkConditions', slow4g);
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
    // The head of the answer.
    const head = response.encodedDataLength;
    pieces.push({ at: timestamp, bytes: head });
    const known = kinds.get(requestId);
    if (known) known.bytes += head;
  });
  network.on('Network.dataReceived', ({ requestId, timestamp, encodedDataLength }) => {
    pieces.push({ at: timestamp, bytes: encodedDataLength });
    const known = kinds.get(requestId);
    if (known) known.bytes += encodedDataLength;
  });
  network.on('Network.loadingFailed', ({ requestId, timestamp }) => {
    const known = kinds.get(requestId);
    if (known) known.done = timestamp;
  });
  network.on('Network.loadingFinished', ({ requestId, timestamp, encodedDataLength }) => {
    const known = kinds.get(requestId);
    if (!known) return;
    known.done = timestamp;
    // Of a compressed document the pieces do not tell their size.
    const untold = encodedDataLength - known.bytes;
    if (untold <= 0) return;
    known.bytes += untold;
    pieces.push({ at: timestamp, bytes: untold });
  });

  /** Comes when nothing has been asked for or answered for a while. */
  const silence = async () => {
    const deadline = Date.now() + 20_000;
    let seen = -1;
    while (
      Date.now() < deadline &&
      (seen !== pieces.length || [...kinds.values()].some(({ done }) => !done))
    ) {
      seen = pieces.length;
      await new Promise((done) => setTimeout(done, 700));
    }
  };

  await page.addInitScript(() => {
    const seen = window as unknown as { largest: { at: number; what: string } };
    seen.largest = { at: 0, what: '' };
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries() as (PerformanceEntry & { url: string; element?: Element })[]) {
        seen.largest = { at: entry.startTime, what: entry.url || (entry.element?.tagName ?? '') };
      }
    }).observe({ type: 'largest-contentful-paint', buffered: true });
  });
  await page.goto(url, { waitUntil: 'load' });
  await page.waitForFunction(() => !('unpainted' in document.documentElement.dataset));
  await silence();
  const largest = await page.evaluate(() => {
    const { largest } = window as unknown as { largest: { at: number; what: string } };
    // Without inner functions of a name: the loader of these files would decorate them with helpers unknown over there.
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
    largestPaintMs: Math.round(largest.at),
    scripts: sizes.reduce((total, size) => total + size, 0),
    requests,
  };
}

async function gzipSize(url: URL): Promise<number> {
  const answer = await fetch(url, { headers: { 'accept-encoding': 'gzip' } });
  await answer.arrayBuffer();
  // The length under the encoding, which is the one announced.
  return Number(answer.headers.get('content-length'));
}
