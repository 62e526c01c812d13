// `npm run bench:lighthouse`: what a phone on slow 4G gets. Lighthouse's mobile preset on the pages a shopper sees, the
// median of three runs each, and the bytes of a first visit to the shop page. Lighthouse is fetched when this runs: it is
// no dependency of the shop.
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';
import { openShop } from '../scripts/open-shop.ts';
import { firstVisit } from './first-visit.ts';

const run = promisify(execFile);
const chromiumPath = process.env.CHROMIUM_PATH ?? '/usr/bin/chromium';
const runs = Number(process.env.RUNS ?? 3);
const pages = ['/', '/shop', '/shop/mango-bottle', '/track-order', '/contact', '/delivery'];
const categories = ['performance', 'accessibility', 'best-practices', 'seo'] as const;
const figures = ['largest-contentful-paint', 'total-blocking-time', 'cumulative-layout-shift'] as const;

interface Report {
  categories: Record<(typeof categories)[number], { score: number }>;
  audits: Record<(typeof figures)[number], { numericValue: number }>;
}

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
    for (let turn = 0; turn < runs; turn += 1) reports.push(await measure(`${shop.url}${page}`));
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
} finally {
  await rm(folder, { recursive: true });
  await shop.close();
}

async function measure(url: string): Promise<Report> {
  const file = join(folder, 'report.json');
  await run(
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
    { env: { ...process.env, CHROME_PATH: chromiumPath } },
  );
  return JSON.parse(await readFile(file, 'utf8'));
}
