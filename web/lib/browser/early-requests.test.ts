import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { earlyKey, fetchUnlessSent } from './early-requests.ts';

const url = 'http://shop/rest/v1/rpc/search_orders';
const call = (token: string, body = '{}') =>
  fetchUnlessSent(url, { method: 'POST', body, headers: { authorization: `Bearer ${token}` } });
const send = (answer: Promise<Response>) =>
  vi.stubGlobal('window', { earlyRequests: { [earlyKey('POST', url, '{}')]: { token: 'one', answer } } });

beforeEach(() => void vi.stubGlobal('fetch', async () => new Response('later')));
afterEach(() => void vi.unstubAllGlobals());

test('takes the answer to the same request of the same session, once', async () => {
  send(Promise.resolve(new Response('early')));
  expect(await (await call('one')).text()).toBe('early');
  expect(await (await call('one')).text()).toBe('later');
});

test.each([
  ['another session', () => call('other')],
  ['another body', () => call('one', '{"search":"mango"}')],
])('sends the request of %s', async (_, request) => {
  send(Promise.resolve(new Response('early')));
  expect(await (await request()).text()).toBe('later');
});

test.each([
  ['was refused', () => Promise.resolve(new Response('', { status: 401 }))],
  ['broke off', () => Promise.reject(new Error('no connection'))],
])('sends a request again that %s', async (_, answer) => {
  send(answer());
  expect(await (await call('one')).text()).toBe('later');
});
