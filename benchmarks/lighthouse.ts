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
import { requireBrowser } from '../scripts/tests/ensure-programs.mjs';
import { firstVisit } from '../scripts/tests/first-visit.ts';
import { openShop } from '../scripts/tests/open-shop.ts';
import { blockingByProcessorTime, type Trace } from './blocking-time.ts';
import { describeResults, type Result, saveResults } from './results.ts';

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
  const yardstick = await measurePage(`http://localhost:${(bare.address() as AddressInfo).port}/`);
  const results: Result[] = [];
  for (const page of pages) {
    // The first visit fills the page cache.
    await (await fetch(`${shop.url}${page}`)).text();
    const measured = await measurePage(`${shop.url}${page}`);
    for (const [name, value] of Object.entries(measured)) {
      const isScore = name === 'lowest score';
      const stick = yardstick[name] ?? Number.NaN;
      results.push({
        row: `on a phone, ${page}: ${name}`,
        database: 'PGlite',
        value,
        unit: isScore ? 'of 100' : name === 'layout shift' ? '' : 'ms',
        ...(isScore ? {} : { isCost: true }),
        // Most pages shift nothing, and a page with one heading blocks nothing.
        ...(name === 'largest paint'
          ? { yardstick: { name: 'a page with one heading', value: stick, ratio: stick / value } }
          : {}),
      });
    }
  }

  const browser = await chromium.launch({
    executablePath: chromiumPath,
    args: ['--no-sandbox', '--disable-gpu'],
  });
  const visit = await firstVisit(browser, `${shop.url}/shop`);
  await browser.close();
  const bytes = {
    total: visit.total,
    'until the largest image is painted': visit.beforeLargestPaint,
    'scripts, under gzip': visit.scripts,
  };
  for (const [name, value] of Object.entries(bytes)) {
    const row = `first visit to /shop: ${name}`;
    results.push({ row, database: 'PGlite', value: value / 1000, unit: 'kB', isCost: true });
  }
  console.log(describeResults(results));
  if (process.argv.includes('--save')) saveResults(results, runs < 3);
  if (repeated.length > 0) console.log(`\nFailed and repeated, at most twice: ${repeated.join(', ')}`);
} finally {
  await rm(folder, { recursive: true });
  bare.close();
  await shop.close();
}

/** Medians of the runs. */
async function measurePage(url: string): Promise<Record<string, number>> {
  const reports: Report[] = [];
  for (let turn = 0; turn < runs; turn += 1) {
    const report = await measure(url);
    if (report) reports.push(report);
  }
  const middle = (of: (report: Report) => number) =>
    reports.map(of).sort((a, b) => a - b)[Math.floor(reports.length / 2)] ?? Number.NaN;
  return {
    'lowest score': Math.min(
      ...categories.map((category) =>
        Math.round(100 * middle((report) => report.categories[category].score)),
      ),
    ),
    'largest paint': middle((report) => report.audits['largest-contentful-paint'].numericValue),
    blocking: middle((report) => report.audits['total-blocking-time'].numericValue),
    'blocking by processor time': middle((report) => report.blockingCpuMs),
    'layout shift': middle((report) => report.audits['cumulative-layout-shift'].numericValue),
  };
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
