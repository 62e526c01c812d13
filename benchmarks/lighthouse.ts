// `npm run bench:lighthouse`: what a phone on slow 4G gets. Lighthouse's mobile preset on the pages a shopper sees, the
// median of three runs each, and the bytes of a first visit to the shop page. Lighthouse is fetched when this runs: it is
// no dependency of the shop.
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';
import { firstVisit } from '../scripts/first-visit.ts';
import { openShop } from '../scripts/open-shop.ts';

const run = promisify(execFile);
const chromiumPath = process.env.CHROMIUM_PATH ?? '/usr/bin/chromium';
const runs = Number(process.env.RUNS ?? 3);
/** Chromium now and then loses the trace of a run; that run says nothing of the page and is made again. */
const attempts = 3;
const pages = ['/', '/shop', '/shop/mango-bottle', '/track-order', '/contact', '/delivery'];
const categories = ['performance', 'accessibility', 'best-practices', 'seo'] as const;
const figures = ['largest-contentful-paint', 'total-blocking-time', 'cumulative-layout-shift'] as const;

interface Report {
  /** What kept Lighthouse from measuring. */
  runtimeError?: { code: string };
  categories: Record<(typeof categories)[number], { score: number }>;
  audits: Record<(typeof figures)[number], { numericValue: number }>;
}

/** Attempts that came to nothing, and why. */
const repeated: string[] = [];

const shop = await openShop();
const folder = await mkdtemp(join(tmpdir(), 'jani-lighthouse-'));
try {
  console.log(
    '| page | performance | accessibility | best practices | SEO | LCP | blocking | layout shift |',
  );
  console.log('|---|---|---|---|---|---|---|---|');
  for (const page of pages) {
    // A page is in the cache when somebody has been there.
    await (await fetch(`${shop.url}${page}`)).text();
    const reports: Report[] = [];
    for (let turn = 0; turn < runs; turn += 1) {
      const report = await measure(`${shop.url}${page}`);
      if (report) reports.push(report);
    }
    const middle = (of: (report: Report) => number) =>
      reports.map(of).sort((a, b) => a - b)[Math.floor(reports.length / 2)] ?? Number.NaN;
    const scores = categories.map((name) =>
      Math.round(100 * middle((report) => report.categories[name].score)),
    );
    const [paint = 0, blocking = 0, shift = 0] = figures.map((name) =>
      middle((report) => report.audits[name].numericValue),
    );
    const row = [
      page,
      ...scores,
      `${(paint / 1000).toFixed(2)} s`,
      `${Math.round(blocking)} ms`,
      shift.toFixed(3),
    ];
    console.log(`| ${row.join(' | ')} |`);
  }

  const browser = await chromium.launch({
    executablePath: chromiumPath,
    args: ['--no-sandbox', '--disable-gpu'],
  });
  const visit = await firstVisit(browser, `${shop.url}/shop`);
  await browser.close();
  const kB = (bytes: number) => `${(bytes / 1000).toFixed(1)} kB`;
  console.log('\n| first visit to /shop | bytes |\n|---|---|');
  console.log(`| in all | ${kB(visit.total)} |`);
  console.log(`| until the largest picture has painted | ${kB(visit.beforeLargestPaint)} |`);
  console.log(`| scripts, under gzip | ${kB(visit.scripts)} |`);
  if (repeated.length > 0)
    console.log(`\nCame to nothing and were made again, at most twice: ${repeated.join(', ')}`);
} finally {
  await rm(folder, { recursive: true });
  await shop.close();
}

/** Gives nothing when no attempt came to an end: the other pages are measured all the same. */
async function measure(url: string): Promise<Report | null> {
  const file = join(folder, 'report.json');
  for (let attempt = 1; ; attempt += 1) {
    await rm(file, { force: true });
    const ended = await run(
      'npx',
      [
        '--yes',
        'lighthouse@12.8.2',
        url,
        '--quiet',
        '--output=json',
        `--output-path=${file}`,
        '--chrome-flags=--headless=new --no-sandbox --disable-gpu',
      ],
      { env: { ...process.env, CHROME_PATH: chromiumPath }, timeout: 90_000 },
    ).catch((error: Error) => error);
    const report: Report | null = await readFile(file, 'utf8').then(JSON.parse, () => null);
    if (report && !report.runtimeError) return report;
    const reason =
      report?.runtimeError?.code ?? (ended instanceof Error ? lastLineOf(ended.message) : 'no report');
    repeated.push(`${new URL(url).pathname} (${reason})`);
    if (attempt === attempts) return null;
  }
}

function lastLineOf(text: string): string {
  return text.trim().split('\n').at(-1) ?? '';
}
