import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { createMetrics, routeOf } from './metrics.ts';

test('labels routes by patterns', () => {
  const routes = {
    '/': '/',
    '/shop?search=muguka': '/shop',
    '/shop.data?_routes=root': '/shop.data',
    '/_root.data': '/.data',
    '/shop/miraa-juice': '/shop/:slug',
    '/shop/miraa-juice/order': '/shop/:slug/order',
    '/track-order/JJ-20261121-1234': '/track-order/:trackingNumber',
    '/track-order/JJ-20261121-1234.data?key=secret': '/track-order/:trackingNumber.data',
    '/t/20261121-1234-ASNFZ4mrze8BI0VniavN7w/receipt': '/t/:code',
    '/rest/v1/products?id=eq.1': '/rest/v1/:table',
    '/rest/v1/rpc/place_order': '/rest/v1/rpc/:function',
    '/functions/v1/mobile-money': '/functions/v1',
    '/functions/v1/mobile-money/notice/secret': '/functions/v1/mobile-money/notice',
    '/auth/v1/token?grant_type=password': '/auth/v1/token',
    '/auth/v1/user': '/auth/v1',
    '/storage/v1/object/public/images/a.webp': '/storage/v1',
    '/admin/orders/5': '/admin',
    '/wp-login.php': 'other',
    '/shop/a/b/c': 'other',
    'http://elsewhere.example/': 'other',
  };
  expect(Object.fromEntries(Object.keys(routes).map((url) => [url, routeOf(url)]))).toEqual(routes);
});

test('requests with unknown paths and methods add no series', async () => {
  const metrics = createMetrics();
  const ask = (prefix: string) => {
    for (let n = 0; n < 50; n += 1) metrics.observeRequest(routeOf(`${prefix}${n}`), 404, 0.001);
  };
  const prefixes = ['/', '/shop/', '/rest/v1/', '/rest/v1/rpc/', '/auth/v1/', '/functions/v1/', '/admin/'];
  for (const prefix of prefixes) ask(prefix);
  const series = (await metrics.render()).match(/^http_request_duration_seconds_count/gm);
  expect(series?.length).toBe(prefixes.length);
});

test('reads the figures of the shop at most once in 5 seconds, and reports failures', async () => {
  const metrics = createMetrics();
  let questions = 0;
  metrics.readShop = async () => {
    questions += 1;
    return [
      { metric: 'payments_open', label: 'processing', value: 7 },
      { metric: 'payments_in_review', label: null, value: 2 },
      { metric: 'unknown', label: null, value: 1 },
    ];
  };
  const [text = ''] = await Promise.all([metrics.render(), metrics.render()]);
  await metrics.render();
  expect(questions).toBe(1);
  expect(text).toContain('\nshop_payments_open{status="processing"} 7\n');
  expect(text).toContain('\nshop_payments_in_review 2\n');
  expect(text).toContain('\nshop_database_up 1\n');

  const without = createMetrics();
  without.readShop = () => Promise.reject(new Error('the database is unavailable'));
  const rest = await without.render();
  expect(rest).toContain('\nshop_database_up 0\n');
  expect(rest).not.toContain('shop_payments_open{');
  expect(rest).toMatch(/^nodejs_eventloop_lag_p99_seconds \d/m);
  expect(rest).toMatch(/^process_resident_memory_bytes \d/m);
});

test('reports the disk, the certificate and the direct connection, each only where there is one', async () => {
  const metrics = createMetrics();
  const none = await metrics.render();
  for (const name of ['data_disk_bytes', 'certificate_end_timestamp_seconds', 'database_listening']) {
    expect(none).not.toMatch(new RegExp(`^${name}[ {]`, 'm'));
  }
  metrics.readDisk = async () => ({ free: 5e9, size: 2e10 });
  metrics.readCertificateEnd = async () => 1_800_000_000;
  metrics.readListening = () => false;
  const text = await metrics.render();
  expect(text).toContain('\ndata_disk_bytes{kind="free"} 5000000000\n');
  expect(text).toContain('\ndata_disk_bytes{kind="size"} 20000000000\n');
  expect(text).toContain('\ncertificate_end_timestamp_seconds 1800000000\n');
  expect(text).toContain('\ndatabase_listening 0\n');
  metrics.readDisk = () => Promise.reject(new Error('the folder is gone'));
  expect(await metrics.render()).not.toMatch(/^data_disk_bytes\{/m);
});

test('alerts use metrics that exist', async () => {
  const document = readFileSync(new URL('../../docs/monitoring.md', import.meta.url), 'utf8');
  const alerts = document.slice(document.indexOf('## Alerts'));
  const used = new Set(alerts.match(/\b(?:shop|data|database|certificate|job|http|nodejs|process)_\w+/g));
  const metrics = createMetrics();
  const known = [...(await metrics.render()).matchAll(/^# TYPE (\w+)/gm)].map(([, name]) => name ?? '');
  const unknown = [...used].filter((name) => !known.includes(name.replace(/_(?:count|bucket)$/, '')));
  expect(unknown).toEqual([]);
});

test('reports jobs and their failures', async () => {
  const metrics = createMetrics();
  metrics.addJob('send refunds', 3000);
  metrics.observeJob('send refunds', 0.2, false);
  metrics.observeJob('send refunds', 4, true);
  const text = await metrics.render();
  expect(text).toContain('job_interval_seconds{job="send refunds"} 3\n');
  expect(text).toContain('job_duration_seconds_count{job="send refunds",result="failed"} 1\n');
  const [, at] = /job_last_success_timestamp_seconds\{job="send refunds"\} (\S+)/.exec(text) ?? [];
  expect(Date.now() / 1000 - Number(at)).toBeLessThan(60);
});

test('has the services of a hosted project, and none without one', async () => {
  const metrics = createMetrics();
  expect(await metrics.render()).not.toMatch(/^hosted_service_up{/m);
  metrics.readServices = async () => ({ auth: true, storage: false });
  const text = await metrics.render();
  expect(text).toContain('hosted_service_up{service="auth"} 1');
  expect(text).toContain('hosted_service_up{service="storage"} 0');
});
