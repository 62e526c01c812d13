import { beforeEach, expect, test } from 'vitest';
import { createPageViews, type PageViews } from './page-views.ts';

const firefox = 'Mozilla/5.0 (Android 15; Mobile; rv:143.0) Gecko/143.0 Firefox/143.0';
let recorded: { path: string; views: number }[][];
let errors: unknown[];
let pageViews: PageViews;
beforeEach(() => {
  recorded = [];
  errors = [];
  pageViews = createPageViews({
    record: async (views) => void recorded.push(views),
    onError: (error) => errors.push(error),
    maxViewsPerNetwork: 1000,
  });
});

function report(body: unknown, headers: Record<string, string> = {}, method = 'POST'): Promise<Response> {
  return pageViews.fetch(
    new Request('http://shop.example/api/event', {
      method,
      headers: { 'user-agent': firefox, host: 'shop.example', 'x-forwarded-for': '10.0.0.1', ...headers },
      ...(method === 'POST' ? { body: typeof body === 'string' ? body : JSON.stringify(body) } : {}),
    }),
  );
}
const view = (path: string) => ({
  name: 'pageview',
  url: `https://jani.example${path}`,
  domain: 'jani.example',
});

test('records views together, without query strings', async () => {
  for (const path of ['/', '/shop?search=mango', '/', '/shop#top']) {
    const answer = await report(view(path));
    expect([answer.status, answer.headers.get('x-plausible-dropped')]).toEqual([202, null]);
  }
  expect(recorded).toEqual([]);
  await pageViews.close();
  expect(recorded).toEqual([
    [
      { path: '/', views: 2 },
      { path: '/shop', views: 2 },
    ],
  ]);
});

test('records views after a delay', async () => {
  pageViews = createPageViews({
    record: async (views) => void recorded.push(views),
    onError: (error) => errors.push(error),
    writeAfterMs: 1,
  });
  await report(view('/'));
  await expect.poll(() => recorded).toEqual([[{ path: '/', views: 1 }]]);
});

test.each([
  [
    'a bot',
    view('/'),
    { 'user-agent': 'Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)' },
  ],
  ['a headless browser', view('/'), { 'user-agent': firefox.replace('Firefox', 'HeadlessChrome') }],
  ['the page of another site', view('/'), { origin: 'https://elsewhere.example' }],
  ['a page without an origin', view('/'), { origin: 'null' }],
  ['another event', { ...view('/'), name: 'Signup' }, {}],
  ['a file on a disk', { ...view('/'), url: 'file:///home/a.html' }, {}],
])('accepts but does not count a report from %s', async (_, body, headers) => {
  const answer = await report(body, headers as Record<string, string>);
  expect([answer.status, answer.headers.get('x-plausible-dropped')]).toEqual([202, '1']);
  await pageViews.close();
  expect(recorded).toEqual([]);
});

test.each(['', 'no json', '[]', 'null', '{"name":"pageview"}', '{"name":"pageview","url":"nowhere"}'])(
  'rejects the report %j',
  async (body) => expect((await report(body)).status).toBe(400),
);

test('rejects a report that is too large, and GET', async () => {
  expect((await report({ ...view('/'), domain: 'x'.repeat(9000) })).status).toBe(413);
  expect((await report(null, {}, 'GET')).status).toBe(405);
});

test('limits the views of one IP address without affecting others', async () => {
  for (let times = 0; times < 1200; times += 1) await report(view('/'));
  await report(view('/shop'), { 'x-forwarded-for': '10.0.0.2' });
  await pageViews.close();
  expect(recorded).toEqual([
    [
      { path: '/', views: 1000 },
      { path: '/shop', views: 1 },
    ],
  ]);
});

test('limits the views of an IPv6 /64 as one client', async () => {
  for (let times = 0; times < 1200; times += 1) {
    await report(view('/'), { 'x-forwarded-for': `2001:db8:0:1:${times.toString(16)}::1` });
  }
  await pageViews.close();
  expect(recorded).toEqual([[{ path: '/', views: 1000 }]]);
});

test('counts pages beyond the maximum together', async () => {
  for (let page = 0; page < 900; page += 1) await report(view(`/made-up-${page}`));
  await report(view(`/${'x'.repeat(400)}`));
  await pageViews.close();
  expect(recorded[0]).toHaveLength(501);
  expect(recorded[0]?.at(-1)).toEqual({ path: 'other', views: 401 });
});

test('reports a failed write, and records later views', async () => {
  let isBroken = true;
  pageViews = createPageViews({
    record: async (views) => {
      if (isBroken) throw new Error('no database');
      recorded.push(views);
    },
    onError: (error) => errors.push(error),
    writeAfterMs: 1,
  });
  await report(view('/'));
  await expect.poll(() => errors).toHaveLength(1);
  isBroken = false;
  await report(view('/shop'));
  await pageViews.close();
  expect(recorded).toEqual([[{ path: '/shop', views: 1 }]]);
});
