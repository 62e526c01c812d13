// The client with malformed and missing answers, over real HTTP.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { TokenStore } from '../../database/access-tokens.ts';
import { connectDaraja, type DarajaClient } from './client.ts';

type Answer = (response: ServerResponse, request: IncomingMessage) => void;

let answers: Answer[];
let bearers: string[];
let tokens: number;
let server: ReturnType<typeof createServer>;
let baseUrl: string;
let daraja: DarajaClient;
const now = () => new Date('2026-11-21T07:00:00Z');

beforeEach(async () => {
  answers = [];
  bearers = [];
  tokens = 0;
  server = createServer((request, response) => {
    if (request.url?.startsWith('/oauth/')) {
      tokens += 1;
      response.end(JSON.stringify({ access_token: `token-${tokens}`, expires_in: '3599' }));
      return;
    }
    bearers.push(request.headers.authorization ?? '');
    request.resume().on('end', () => answers.shift()?.(response, request));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  daraja = connect(baseUrl);
});
afterEach(() => {
  server.closeAllConnections();
  return new Promise((resolve) => server.close(resolve));
});

const cachedToken: TokenStore = {
  lease: async () => ({ kind: 'fresh', token: { value: 'token-0', freshForMs: 60_000 } }),
  store: async () => {},
};

function connect(baseUrl: string, timeoutMs = 30_000, tokenStore?: TokenStore): DarajaClient {
  const account = { consumerKey: 'k', consumerSecret: 's', shortcode: '174379', passkey: 'p' };
  const settings = { baseUrl, ...account, transactionType: 'CustomerPayBillOnline', timeoutMs } as const;
  return connectDaraja(settings, { now, ...(tokenStore ? { tokenStore } : {}) });
}

const json = (status: number, body: unknown, headers: Record<string, string> = {}): Answer => {
  return (response) => response.writeHead(status, headers).end(JSON.stringify(body));
};

test.each<[string, Answer]>([
  ['the connection is reset', (_, request) => request.socket.destroy()],
  [
    'a truncated answer',
    (response) => {
      response.writeHead(200, { 'content-length': '100' }).write('{"ResponseCode":');
      setTimeout(() => response.destroy(), 10);
    },
  ],
])('the result is unknown when %s', async (_, answer) => {
  answers = [answer];
  expect((await daraja.post('/x', {})).kind).toBe('lost');
});

test.each<[string, Answer]>([
  ['there is no answer', () => {}],
  ['the answer does not end', (response) => response.writeHead(200).write('{')],
])('the result is unknown when %s in time', async (_, answer) => {
  answers = [answer];
  // The timeout is too short to request a token on a busy machine.
  expect((await connect(baseUrl, 300, cachedToken).post('/x', {})).kind).toBe('lost');
});

test('a refused connection means that nothing was sent', async () => {
  expect((await connect('http://127.0.0.1:1').post('/x', {})).kind).toBe('not sent');
  expect((await connect('http://no-such-host.invalid').post('/x', {})).kind).toBe('not sent');
});

test.each<[string, number, Answer]>([
  ['a web page', 403, (response) => response.writeHead(403, { 'content-type': 'text/html' }).end('<html>')],
  ['empty', 400, (response) => response.writeHead(400).end()],
  ['broken UTF-8', 200, (response) => response.end(Buffer.from([0xff, 0xfe, 0x7b]))],
  ['a list', 200, json(200, [1])],
  ['a redirect', 302, (response) => response.writeHead(302, { location: '/elsewhere' }).end()],
])('returns an answer that is %s unchanged', async (_, status, answer) => {
  answers = [answer];
  expect(await daraja.post('/x', {})).toMatchObject({ kind: 'answered', status, fields: null });
  expect(bearers).toHaveLength(1);
});

test.each<[string, unknown, number]>([
  ['404.001.03', { errorCode: '404.001.03', errorMessage: 'Invalid Access Token' }, 404],
  ['400.003.01', { errorCode: '400.003.01' }, 400],
  ['401.002.01', { errorCode: '401.002.01' }, 401],
  ["the gateway's own", { fault: { faultstring: 'Invalid access token' } }, 401],
])(
  'a token that is rejected with %s is replaced, and the request is retried once',
  async (_, body, status) => {
    answers = [json(status, body), json(200, { ResponseCode: '0' })];
    expect(await daraja.post('/x', {})).toMatchObject({ status: 200 });
    expect(bearers).toEqual(['Bearer token-1', 'Bearer token-2']);
    answers = [json(status, body), json(status, body), json(200, {})];
    expect(await daraja.post('/x', {})).toMatchObject({ status });
    expect(bearers).toHaveLength(4);
  },
);

test('an app that lacks an API keeps its token, as another one would lack it too', async () => {
  const body = { errorCode: '401.003.01', errorMessage: 'Invalid API call as no apiproduct match found' };
  answers = [json(401, body)];
  expect(await daraja.post('/x', {})).toMatchObject({ status: 401 });
  expect(bearers).toHaveLength(1);
});

test.each([
  ['7', 7000],
  ['0', 0],
  ['Sat, 21 Nov 2026 07:01:00 GMT', 60_000],
  ['Sat, 21 Nov 2026 06:00:00 GMT', 0],
  ['999999999', 3_600_000],
  ['-7', undefined],
  ['soon', undefined],
])('Retry-After %s is %s ms', async (text, ms) => {
  answers = [json(429, {}, { 'retry-after': text })];
  const reply = await daraja.post('/x', {});
  expect(reply.kind === 'answered' && reply.retryAfterMs).toBe(ms);
});
