// `npm run bench:lighthouse`: Lighthouse's mobile preset (slow 4G) on the storefront's pages and, as a yardstick, on a page with one
// heading; medians of three runs; and the bytes of a first visit to the shop page. Lighthouse is downloaded for the run: it is no
// dependency of the shop.
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';
import { requireBrowser } from '../scripts/ensure-programs.mjs';
import { firstVisit } from '../scripts/first-visit.ts';
import { openShop } from '../scripts/open-shop.ts';
import { blockingByProcessorTime, type Trace } from './blocking-time.ts';

const run = promisify(execFile);
const chromiumPath = requireBrowser();
const runs = Number(process.env.RUNS ?? 3);
/** Chromium sometimes loses the trace of a run. Such a run is repeated. */
const attempts = 3;
const pages = ['/', '/shop', '/shop/mango-bottle', '/track-order', '/contact', '/delivery'];
const categories = ['performance', 'accessibility', 'best-practices', 'seo'] as const;
const figures = ['largest-contentful-paint', 'total-blocking-time', 'cumulative-layout-shift'] as const;

interface Report {
  /** Why Lighthouse could not measure. */
  runtimeError?: { code: string };
  categories: Record<(typeof categories)[number], { score: number }>;
  audits: Record<(typeof figures)[number], { numericValue: number }>;
  /** Blocking time by processor time, in milliseconds. */
  blockingCpuMs: number;
}

/** Failed attempts with their reasons. */
const repeated: string[] = [];

const shop = await openShop();
const bare = createServer((_, response) => {
  response.setHeader('content-type', 'text/html; charset=utf-8');
  response.end('<!doctype html><html lang="en"><title>Bare</title><h1>One heading</h1></html>');
});
await new Promise<void>((listening) => bare.listen(0, listening));
const folder = await mkdtemp(join(tmpdir(), 'jani-lighthouse-'));
try {
  console.log(
    '| page | performance | accessibility | best practices | SEO | LCP | blocking | of it by processor time | layout shift |',
  );
  console.log('|---|---|---|---|---|---|---|---|---|');
  for (const page of pages) {
    // The first visit fills the page cache.
    await (await fetch(`${shop.url}${page}`)).text();
    console.log(await row(page, `${shop.url}${page}`));
  }
  console.log(await row('one heading', `http://localhost:${(bare.address() as AddressInfo).port}/`));

  const browser = await chromium.launch({
    executablePath: chromiumPath,
    args: ['--no-sandbox', '--disable-gpu'],
  });
  const visit = await firstVisit(browser, `${shop.url}/shop`);
  await browser.close();
  const kB = (bytes: number) => `${(bytes / 1000).toFixed(1)} kB`;
  console.log('\n| first visit to /shop | bytes |\n|---|---|');
  console.log(`| total | ${kB(visit.total)} |`);
  console.log(`| until the largest image is painted | ${kB(visit.beforeLargestPaint)} |`);
  console.log(`| scripts, under gzip | ${kB(visit.scripts)} |`);
  if (repeated.length > 0) console.log(`\nFailed and repeated, at most twice: ${repeated.join(', ')}`);
} finally {
  await rm(folder, { recursive: true });
  bare.close();
  await shop.close();
}

async function row(name: string, url: string): Promise<string> {
  const reports: Report[] = [];
  for (let turn = 0; turn < runs; turn += 1) {
    const report = await measure(url);
    if (report) reports.push(report);
  }
  const middle = (of: (report: Report) => number) =>
    reports.map(of).sort((a, b) => a - b)[Math.floor(reports.length / 2)] ?? Number.NaN;
  const scores = categories.map((category) =>
    Math.round(100 * middle((report) => report.categories[category].score)),
  );
  const [paint = 0, blocking = 0, shift = 0] = figures.map((figure) =>
    middle((report) => report.audits[figure].numericValue),
  );
  const cells = [
    name,
    ...scores,
    `${(paint / 1000).toFixed(2)} s`,
    `${Math.round(blocking)} ms`,
    `${Math.round(middle((report) => report.blockingCpuMs))} ms`,
    shift.toFixed(3),
  ];
  return `| ${cells.join(' | ')} |`;
}

/** Returns nothing when every attempt failed, so that the other pages are still measured. */
async function measure(url: string): Promise<Report | null> {
  const file = join(folder, 'report.json');
  const traceFile = join(folder, 'report-0.trace.json');
  for (let attempt = 1; ; attempt += 1) {
    for (const old of [file, traceFile]) await rm(old, { force: true });
    const ended = await run(
      'npx',
      [
        '--yes',
        'lighthouse@12.8.2',
        url,
        '--quiet',
        '--output=json',
        `--output-path=${file}`,
        '--save-assets',
        '--chrome-flags=--headless=new --no-sandbox --disable-gpu',
      ],
      { env: { ...process.env, CHROME_PATH: chromiumPath }, timeout: 90_000 },
    ).catch((error: Error) => error);
    const report: Report | null = await readFile(file, 'utf8').then(JSON.parse, () => null);
    const trace: Trace | null = await readFile(traceFile, 'utf8').then(JSON.parse, () => null);
    if (report && trace && !report.runtimeError)
      return { ...report, blockingCpuMs: blockingByProcessorTime(trace) };
    const reason =
      report?.runtimeError?.code ?? (ended instanceof Error ? lastLineOf(ended.message) : 'no report');
    repeated.push(`${new URL(url).pathname} (${reason})`);
    if (attempt === attempts) return null;
  }
}

function lastLineOf(text: string): string {
  return text.trim().split('\n').at(-1) ?? '';
}
