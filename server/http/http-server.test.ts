import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { addressOf, PlainRequest, PlainResponse } from '@jani-juice/backend/http';
import { createFairShare, networksOf } from '@jani-juice/backend/limits';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { openLog } from '../monitoring/log.ts';
import { createMetrics } from '../monitoring/metrics.ts';
import { finishPage, PageCache } from '../pages/page-cache.ts';
import { createHttpServer, type HttpServerOptions } from './http-server.ts';

let folder: string;
let server: Awaited<ReturnType<typeof openServer>>;
const log = openLog('silent');
const fairShare = createFairShare('pglite');

/** Starts a server on a free port. It trusts one proxy, has no backend and renders no page. `options` override these. */
async function openServer(options: Partial<HttpServerOptions>) {
  const http = createHttpServer({
    backend: null,
    pages: new PageCache(),
    renderPage: () => Promise.reject(new Error('no page is requested')),
    assets: folder,
    pageViews: { fetch: async () => new Response() },
    fairShare: createFairShare('pglite'),
    isReady: async () => true,
    metrics: createMetrics(),
    secretKey: 'sb_secret_test',
    trustedProxies: 1,
    publicUrl: 'http://shop.example',
    log,
    ...options,
  });
  await new Promise<void>((done) => http.listen(0, '127.0.0.1', () => done()));
  const { port } = http.address() as AddressInfo;
  return {
    http,
    port,
    url: `http://127.0.0.1:${port}`,
    async close() {
      http.closeAllConnections();
      await new Promise((done) => http.close(done));
    },
  };
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'jani-http-server-'));
  await mkdir(join(folder, 'assets'));
  await writeFile(join(folder, 'assets/letters.js'), 'abcdefghij');
  await writeFile(join(folder, 'assets/gone.js'), 'here for now');
  server = await openServer({
    renderPage: async (request) =>
      finishPage(200, { 'content-type': 'text/html' }, Buffer.from(`<p>${await request.text()}</p>`)),
    pageViews: { fetch: async (request) => new Response(await request.text(), { status: 202 }) },
    fairShare,
    trustedProxies: 0,
  });
});

afterAll(async () => {
  await server.close();
  await rm(folder, { recursive: true });
});

function letters(headers: Record<string, string>): Promise<Response> {
  return fetch(`${server.url}/assets/letters.js`, { headers });
}

test('sends a page in the accepted encoding, and 304 to a client that has it', async () => {
  const ask = (headers: Record<string, string>, method = 'GET') =>
    fetch(`${server.url}/delivery`, { method, headers });
  const tags = new Set<string | null>();
  for (const [read, sent] of [
    ['gzip, deflate, br, zstd', 'br'],
    ['gzip, deflate', 'gzip'],
    ['br;q=0, gzip', 'gzip'],
    ['identity', null],
  ] as const) {
    const answer = await ask({ 'accept-encoding': read });
    expect([answer.status, answer.headers.get('content-encoding')], read).toEqual([200, sent]);
    expect(answer.headers.get('vary')).toBe('accept-encoding');
    expect(await answer.text()).toBe('<p></p>');
    tags.add(answer.headers.get('etag'));
  }
  const [tag] = tags;
  expect(tags.size).toBe(1);
  const again = await ask({ 'accept-encoding': 'br', 'if-none-match': String(tag) });
  expect([again.status, await again.text(), again.headers.get('etag')]).toEqual([304, '', tag]);
  expect((await ask({ 'if-none-match': 'W/"of another time"' })).status).toBe(200);
  const head = await ask({ 'accept-encoding': 'identity' }, 'HEAD');
  expect([head.headers.get('content-length'), await head.text()]).toEqual(['7', '']);
});

test('cached pages and files wait in the share of their client while there are too many of them', async () => {
  const fairShare = { ...createFairShare('pglite'), startsAtOnce: () => false };
  const run = vi.spyOn(fairShare.direct, 'run');
  const full = await openServer({
    renderPage: async () => finishPage(200, { 'content-type': 'text/html' }, Buffer.from('page')),
    fairShare,
  });
  const { url } = full;
  const read = async (path: string) =>
    (await fetch(`${url}${path}`, { headers: { 'x-forwarded-for': '192.0.2.1' } })).text();
  expect(await read('/delivery')).toBe('page');
  run.mockClear();
  expect([await read('/delivery'), await read('/assets/letters.js')]).toEqual(['page', 'abcdefghij']);
  expect(run.mock.calls.map(([client]) => client)).toEqual(
    Array(2).fill(['visitors', '192.0.2.0/24', '192.0.2.1']),
  );
  await full.close();
});

test('renders no page for a network that does not read its answers', async () => {
  const post = () => fetch(`${server.url}/contact`, { method: 'POST', body: new URLSearchParams('a=b') });
  const reader = { networks: networksOf('127.0.0.1'), queuedBytes: 16_000_000, terminate() {} };
  fairShare.unread.note(reader, reader.queuedBytes);
  const refused = await post();
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '5']);
  fairShare.unread.forget(reader);
  expect((await post()).status).toBe(200);
});

test('handshakes of WebSockets wait in the share of their client, and one that disconnects is forgotten', async () => {
  const upgraded: string[] = [];
  const fairShare = createFairShare('pglite');
  const realtime = await openServer({
    backend: {
      serves: () => true,
      knowsSender: () => false,
      answer: async () => new Response(),
      upgrade: (request, socket) => {
        upgraded.push(String(request.headers['x-forwarded-for']));
        socket.end();
      },
    },
    renderPage: async () => finishPage(200, {}, Buffer.from('page')),
    fairShare,
    unavailableServices: async () => [],
  });
  const handshake = (address: string) => {
    const socket = connect(realtime.port, '127.0.0.1');
    socket.on('error', () => {});
    socket.write(
      `GET /realtime/v1/websocket HTTP/1.1\r\nhost: shop\r\nx-forwarded-for: ${address}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n`,
    );
    return socket;
  };
  let release = () => {};
  const released = new Promise<void>((done) => {
    release = done;
  });
  // All places of visitors.
  const busy = Array.from({ length: 3 }, () =>
    fairShare.entry.run(['visitors', '192.0.2.0/24', '192.0.2.1'], () => released),
  );
  handshake('192.0.2.1');
  const impatient = handshake('192.0.2.1');
  handshake('198.51.100.1');
  await expect.poll(() => fairShare.entry.queued).toBe(3);
  impatient.resetAndDestroy();
  await expect.poll(() => fairShare.entry.queued).toBe(2);
  expect(upgraded).toEqual([]);
  release();
  await Promise.all(busy);
  await expect.poll(() => upgraded.toSorted()).toEqual(['192.0.2.1', '198.51.100.1']);
  await realtime.close();
});

test('a network with many page requests delays only itself, and requests that wait for a function delay no one', async () => {
  const started: string[] = [];
  const ends: (() => void)[] = [];
  const pause = () => new Promise<void>((done) => ends.push(done));
  const busy = await openServer({
    renderPage: async (request, _use, callFunction = (call) => call()) => {
      const { pathname } = new URL(request.url);
      started.push(pathname);
      if (pathname.startsWith('/slow')) await pause();
      if (pathname.startsWith('/paid')) await callFunction(pause);
      return finishPage(200, { 'content-type': 'text/html' }, Buffer.from(pathname));
    },
  });
  const from = (address: string, path: string, method = 'GET') =>
    fetch(`${busy.url}${path}`, {
      method,
      headers: { 'x-forwarded-for': address },
      ...(method === 'POST' ? { body: new URLSearchParams() } : {}),
    }).then((response) => response.text());
  // More than one network's share of the memory of answers, which are not made yet.
  const payments = Array.from({ length: 10 }, (_, n) => from('198.51.100.1', `/paid/${n}`, 'POST'));
  await expect.poll(() => started.filter((path) => path.startsWith('/paid')).length).toBe(10);
  expect(await from('198.51.100.1', '/page')).toBe('/page');

  // IP addresses of one network.
  const flood = Array.from({ length: 12 }, (_, n) => from(`192.0.2.${n}`, `/slow/${n}`));
  await expect.poll(() => started.filter((path) => path.startsWith('/slow')).length).toBe(2);
  expect(await from('203.0.113.2', '/page')).toBe('/page');
  expect(await from('203.0.113.3', '/sent', 'POST')).toBe('/sent');
  expect(started.filter((path) => path.startsWith('/slow')).length).toBe(2);

  const endAll = () => {
    for (const end of ends.splice(0)) end();
    return started.filter((path) => path.startsWith('/slow')).length;
  };
  await expect.poll(endAll).toBe(12);
  let answers: string[] = [];
  const answered = Promise.all([...flood, ...payments]).then((all) => {
    answers = all;
  });
  await expect.poll(() => endAll() && answers.length).toBe(22);
  await answered;
  expect(answers).toEqual([...flood.map((_, n) => `/slow/${n}`), ...payments.map((_, n) => `/paid/${n}`)]);
  await busy.close();
});

test('answers reads of tables whole or streamed, as plain or as web requests', async () => {
  const seen: string[] = [];
  const services = await openServer({
    backend: {
      serves: (path) => path.startsWith('/rest/v1/'),
      knowsSender: () => false,
      upgrade: () => {},
      async answer(request) {
        const { pathname, search } = addressOf(request);
        const kind = request instanceof PlainRequest ? 'plain' : 'web';
        seen.push(
          `${kind} ${request.method} ${pathname}${search} from ${request.headers.get('x-forwarded-for')}`,
        );
        if (pathname.endsWith('/long'))
          return new PlainResponse(200, { 'content-type': 'application/json' }, '["né"]'.repeat(1000));
        if (pathname.endsWith('/whole'))
          return new PlainResponse(200, { 'content-type': 'text/plain' }, 'né');
        return new Response(new Blob(['as it comes']).stream(), { status: 206 });
      },
    },
  });
  const ask = async (path: string, method = 'GET') => {
    const url = `${services.url}/rest/v1/${path}`;
    const response = await fetch(url, { method, headers: { 'x-forwarded-for': '192.0.2.1' } });
    const { status, headers } = response;
    return [
      status,
      headers.get('content-length'),
      headers.get('x-content-type-options'),
      await response.text(),
    ];
  };
  expect(await ask('whole?a=eq.1')).toEqual([200, '3', 'nosniff', 'né']);
  for (const [method, encoding] of [
    ['GET', 'br'],
    ['POST', 'br'],
    ['GET', 'gzip'],
    ['GET', 'identity'],
  ] as const) {
    const answer = await fetch(`${services.url}/rest/v1/long`, {
      method,
      headers: { 'accept-encoding': encoding },
    });
    const { headers } = answer;
    expect([headers.get('content-encoding'), headers.get('vary')]).toEqual([
      encoding === 'identity' ? null : encoding,
      'accept-encoding',
    ]);
    expect(Number(headers.get('content-length')) < 200).toBe(encoding !== 'identity');
    expect(await answer.text()).toBe('["né"]'.repeat(1000));
  }
  seen.length = 0;
  expect(await ask('whole', 'HEAD')).toEqual([200, null, 'nosniff', '']);
  expect(await ask('parts')).toEqual([206, '11', 'nosniff', 'as it comes']);
  expect(await ask('whole?a=eq.%C3%A9 b')).toEqual([200, '3', 'nosniff', 'né']);
  expect(await ask(`whole?a=eq.${'x'.repeat(4096)}`)).toEqual([200, '3', 'nosniff', 'né']);
  expect(await ask('%77hole')).toEqual([206, '11', 'nosniff', 'as it comes']);
  expect(await ask('whole', 'POST')).toEqual([200, '3', 'nosniff', 'né']);
  expect(seen).toEqual([
    'plain HEAD /rest/v1/whole from 192.0.2.1',
    'plain GET /rest/v1/parts from 192.0.2.1',
    'plain GET /rest/v1/whole?a=eq.%C3%A9%20b from 192.0.2.1',
    // The service refuses it; until then it waits in the queue of its network.
    expect.stringMatching(/^web GET \/rest\/v1\/whole\?a=eq\.x{4096} /),
    'web GET /rest/v1/%77hole from 192.0.2.1',
    'web POST /rest/v1/whole from 192.0.2.1',
  ]);
  await services.close();
});

describe('parts of a file', () => {
  test('sends one range with a first and a last byte', async () => {
    const response = await letters({ range: 'bytes=2-4' });
    expect([response.status, await response.text()]).toEqual([206, 'cde']);
  });

  test.each(['bytes=5-2', 'bytes=-3', 'bytes=0-1,3-4', 'bytes=x-y', 'lines=1-2'])(
    'sends the whole file for "%s"',
    async (range) => {
      const response = await letters({ range });
      expect([response.status, await response.text()]).toEqual([200, 'abcdefghij']);
    },
  );

  test('sends the whole file for a conditional range', async () => {
    const response = await letters({ range: 'bytes=2-4', 'if-range': '"another"' });
    expect([response.status, await response.text()]).toEqual([200, 'abcdefghij']);
  });

  test('answers 416 for a range beyond the end', async () => {
    expect((await letters({ range: 'bytes=100-' })).status).toBe(416);
  });
});

test('a deleted file fails its own response only', async () => {
  await rm(join(folder, 'assets/gone.js'));
  await expect(fetch(`${server.url}/assets/gone.js`).then((r) => r.text())).rejects.toThrow();
  expect((await letters({})).status).toBe(200);
});

describe('a form', () => {
  const post = (body: BodyInit) =>
    fetch(`${server.url}/contact`, {
      method: 'POST',
      body,
      duplex: 'half',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    } as RequestInit);

  test('reaches its page completely', async () => {
    expect(await (await post(new URLSearchParams({ name: 'Amina' }))).text()).toBe('<p>name=Amina</p>');
  });

  test('of another type is rejected with a sentence before it is parsed', async () => {
    for (const type of ['application/json', 'multipart/form-data; boundary=x', 'text/plain']) {
      const sent = { method: 'POST', body: '{', headers: { 'content-type': type } };
      const answer = await fetch(`${server.url}/contact`, sent);
      expect([answer.status, await answer.text()]).toEqual([415, 'This form cannot be read.\n']);
    }
  });

  test('of 101 fields is rejected, one of 100 is not', async () => {
    const fields = (count: number) => Array.from({ length: count }, (_, n) => `f${n}=x`).join('&');
    const status = async (count: number) => (await post(new URLSearchParams(fields(count)))).status;
    expect([await status(100), await status(101)]).toEqual([200, 413]);
  });

  test('of another site is rejected, one of the shop is accepted, also behind a proxy', async () => {
    const from = async (origin: string) => {
      const sent = { method: 'POST', body: new URLSearchParams('a=b'), headers: { origin } };
      return (await fetch(`${server.url}/contact`, sent)).status;
    };
    expect(await from('https://evil.example')).toBe(403);
    expect(await from('null')).toBe(403);
    expect(await from(server.url)).toBe(200);
    expect(await from(`https://127.0.0.1:${server.port}`)).toBe(200);
    expect(await from('https://shop.example')).toBe(200);
  });

  test('of a client that disconnects is not logged as an error', async () => {
    const logged = vi.spyOn(log, 'error');
    const socket = await open();
    const gone = new Promise((done) => server.http.once('request', (request) => request.once('close', done)));
    socket.write(
      'POST /contact HTTP/1.1\r\nHost: shop\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\na=b',
    );
    await new Promise((done) => server.http.once('request', done));
    socket.destroy();
    await gone;
    // An error would be logged before the next response.
    expect((await post(new URLSearchParams('a=b'))).status).toBe(200);
    expect(logged).not.toHaveBeenCalled();
    logged.mockRestore();
  });

  test('that is too large is rejected and not buffered, with or without a Content-Length', async () => {
    expect((await post('a'.repeat(33 * 1024))).status).toBe(413);
    let sent = 0;
    const endless = new ReadableStream({
      pull(controller) {
        sent += 65_536;
        if (sent > 200 * 1024 * 1024) controller.close();
        else controller.enqueue(new Uint8Array(65_536));
      },
    });
    const status = await post(endless).then(
      (response) => response.status,
      () => 'cut off',
    );
    expect([413, 'cut off']).toContain(status);
    expect(sent).toBeLessThan(100 * 1024 * 1024);
  });
});

test('closes a connection whose request body was not read to its end', async () => {
  const impatient = await openServer({
    backend: {
      serves: () => true,
      knowsSender: () => false,
      upgrade: () => {},
      async answer(request) {
        for await (const _ of (request as Request).body ?? []) break;
        return new Response('too large', { status: 413 });
      },
    },
    trustedProxies: 0,
  });
  const socket = connect(impatient.port, '127.0.0.1');
  const answer = new Promise<string>((done) => socket.once('data', (data) => done(String(data))));
  socket.on('error', () => {});
  socket.write(`POST /auth HTTP/1.1\r\nHost: shop\r\nContent-Length: 9000000\r\n\r\n${'a'.repeat(1000)}`);
  expect(await answer).toMatch(/^HTTP\/1\.1 413 [\s\S]*\r\nconnection: close\r\n/i);
  socket.destroy();
  await impatient.close();
});

test.each([
  'GET /healthz HTTP/1.1\r\nHost: shop\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n',
  'POST /healthz HTTP/1.1\r\nHost: shop\r\nConnection: Upgrade\r\nUpgrade: TLS/1.0\r\nContent-Length: 2\r\n\r\nab',
])('answers a request that offers another protocol: %j', async (request) => {
  const socket = await open();
  // The connection serves further requests.
  for (const _ of [1, 2]) {
    const answer = new Promise<string>((done) => socket.once('data', (data) => done(String(data))));
    socket.write(request);
    expect(await answer).toMatch(/^HTTP\/1\.1 200 [\s\S]*ok\n$/);
  }
  socket.destroy();
});

test('survives a client that disconnects during a WebSocket handshake', async () => {
  const answered = new Promise<number>((done) => {
    server.http.once('upgrade', (_request, socket) => {
      done(socket.listenerCount('error'));
      // The error of writing a response to a closed connection.
      socket.destroy(new Error('read ECONNRESET'));
    });
  });
  const socket = await open();
  socket.write('GET /anywhere HTTP/1.1\r\nHost: shop\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
  expect(await answered).toBeGreaterThan(0);
  socket.destroy();
  expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
});

test.each([
  'OPTIONS * HTTP/1.1\r\nHost: shop',
  'GET /nothing HTTP/1.1\r\nHost: ',
  'GET /x HTTP/1.1\r\nHost: a/<b>',
  'GET /shop/%00 HTTP/1.1\r\nHost: shop',
  'GET /shop/%ff HTTP/1.1\r\nHost: shop',
])('answers 400 to the request line %j', async (lines) => {
  const socket = await open();
  const answer = new Promise<string>((done) => socket.once('data', (data) => done(String(data))));
  socket.write(`${lines}\r\nConnection: close\r\n\r\n`);
  expect(await answer).toMatch(/^HTTP\/1\.1 400 /);
  socket.destroy();
});

function open(): Promise<Socket> {
  return new Promise((done, fail) => {
    const socket = connect(server.port, '127.0.0.1', () => done(socket));
    socket.once('error', fail);
  });
}

test('returns metrics only to a caller with the secret key, and counts cached pages', async () => {
  const read = (headers: Record<string, string>) => fetch(`${server.url}/metrics`, { headers });
  for (const headers of [
    {},
    { authorization: 'Bearer wrong' },
    { apikey: 'sb_secret_test' },
    { authorization: 'sb_secret_test' },
  ]) {
    const refused = await read(headers as Record<string, string>);
    expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
    expect(await refused.text()).not.toContain('nodejs_');
  }
  const count = async (line: string) => {
    const text = await (await read({ authorization: 'Bearer sb_secret_test' })).text();
    return Number(
      text
        .split('\n')
        .find((candidate) => candidate.startsWith(`${line} `))
        ?.split(' ')[1] ?? 0,
    );
  };
  const hit = 'page_cache_requests_total{result="hit"}';
  const measured = 'http_request_duration_seconds_count{route="/shop/:slug",status="2xx"}';
  await fetch(`${server.url}/shop/measured`);
  // A request is measured when its connection is done with it, which is after the client has the response.
  await expect.poll(() => count(measured)).toBe(1);
  const hits = await count(hit);
  for (let n = 0; n < 3; n += 1) await fetch(`${server.url}/shop/measured`);
  expect([await count(hit), await count(measured)]).toEqual([hits + 3, 1]);
  await fetch(`${server.url}/assets/letters.js`);
  await expect
    .poll(() => count('http_request_duration_seconds_count{route="file",status="2xx"}'))
    .toBeGreaterThan(0);
});

test('gives each request an id in its response, in the log and on the error page', async () => {
  const lines: Record<string, unknown>[] = [];
  const failing = await openServer({
    renderPage: async (request) => {
      if (new URL(request.url).pathname === '/contact') throw new Error('spilled');
      return finishPage(200, {}, Buffer.from(String(request.headers.get('x-request-id'))));
    },
    log: openLog('debug', { write: (line) => void lines.push(JSON.parse(line)) }),
  });
  const { url } = failing;
  const ask = async (path: string, init: RequestInit = {}) => {
    const answer = await fetch(url + path, { ...init, headers: { 'x-request-id': 'chosen by a stranger' } });
    const id = answer.headers.get('x-request-id') ?? '';
    expect(id).toMatch(/^[0-9a-f]{12}$/);
    return { id, text: await answer.text() };
  };
  const failed = await ask('/contact');
  expect(failed.text).toContain(`Reference: ${failed.id}`);
  expect(lines).toContainEqual(
    expect.objectContaining({ msg: 'a page could not be rendered', requestId: failed.id }),
  );
  const refused = await ask('/order', { method: 'PUT' });
  expect(lines).toContainEqual(expect.objectContaining({ msg: 'request refused', requestId: refused.id }));
  await expect
    .poll(() => lines)
    .toContainEqual(expect.objectContaining({ msg: 'request', status: 405, requestId: refused.id }));
  const personal = await ask('/track-order/JJ-20261121-1234');
  expect(personal.text).toBe(personal.id);
  expect(new Set([failed.id, refused.id, personal.id]).size).toBe(3);
  // Cached pages and files are the same for everyone.
  expect((await fetch(`${url}/assets/letters.js`)).headers.has('x-request-id')).toBe(false);
  await failing.close();
});

test('serves the files of other builds, renders nothing for unknown ones, and reports the release', async () => {
  const files = new Map([
    ['/assets/other-1.js', { body: Buffer.from('other'), isBrotli: false }],
    ['/assets/down-1.js', null],
  ]);
  const other = await openServer({
    buildFiles: {
      serves: (path) => path.startsWith('/assets/'),
      async find(path) {
        const file = files.get(path);
        if (file === null) throw new Error('the store does not answer');
        return file ?? null;
      },
      renew: async () => {},
    },
    release: '835a37cfae175108',
    trustedProxies: 0,
  });
  const { url } = other;
  const read = async (path: string) => {
    const { status, headers } = await fetch(url + path);
    return [status, headers.get('cache-control')];
  };
  expect(await read('/assets/letters.js')).toEqual([200, 'public, max-age=31536000, immutable']);
  expect(await read('/assets/other-1.js')).toEqual([200, 'public, max-age=31536000, immutable']);
  expect(await read('/assets/unknown-1.js')).toEqual([404, 'no-store']);
  expect(await read('/assets/down-1.js')).toEqual([503, 'no-store']);
  expect((await fetch(`${url}/readyz`)).headers.get('x-release')).toBe('835a37cfae175108');
  await other.close();
});

test('logs no value of a refused or failed request, whatever service it is for', async () => {
  const lines: string[] = [];
  const secret = 'wanjiru';
  const [phone, email, key, number] = [
    `0712345678`,
    `${secret}@example.com`,
    'ASNFZ4mrze8BI0VniavN7w',
    'JJ-20261121-1234',
  ];
  const refusing = await openServer({
    backend: {
      serves: (path) => /^\/(rest|auth|storage|functions|realtime)\/v1/.test(path),
      knowsSender: () => false,
      answer: async () => new PlainResponse(403, {}, `Key (phone)=(${phone})`),
      upgrade: () => {},
    },
    renderPage: async () => {
      throw new Error(`Key (email)=(${email}) of "${secret}" with ${key}`);
    },
    unavailableServices: async () => [],
    log: openLog('debug', { write: (line) => void lines.push(line) }),
  });
  const { url } = refusing;
  const requests: [method: string, path: string, body?: string][] = [
    ['GET', `/rest/v1/orders?customer_phone=eq.${phone}&or=(email.eq.${email},access_key.eq.${key})`],
    ['PATCH', `/rest/v1/orders?tracking_number=in.(${number})&select=id,${phone}`, `{"name":"${secret}"}`],
    ['GET', `/rest/v1/rpc/track_order?tracking_number=${number}&access_key=${key}`],
    ['POST', '/rest/v1/rpc/place_order', `{"customer_phone":"${phone}"}`],
    ['GET', `/auth/v1/verify?token=${key}&type=recovery&email=${email}`],
    ['POST', '/auth/v1/token?grant_type=password', `{"email":"${email}"}`],
    ['GET', `/storage/v1/object/receipts/${secret}/${number}.pdf?token=${key}`],
    ['POST', `/functions/v1/mobile-money/notice/${key}`, phone],
    ['POST', '/realtime/v1/api/broadcast', `{"messages":[{"topic":"order-${key}"}]}`],
    ['GET', `/track-order/${number}?key=${key}`],
    ['GET', `/t/20261121-1234-${key}`],
    ['GET', `/newsletter/confirm?token=${key}`],
    ['POST', '/contact', `email=${email}&phone=${phone}`],
    ['PUT', `/${email}`, phone],
  ];
  for (const [method, path, body = null] of requests) {
    const headers = {
      referer: `http://shop.example/t/20261121-1234-${key}`,
      'user-agent': `Agent of ${email}`,
      'x-forwarded-for': '203.0.113.7',
      'content-type': 'application/x-www-form-urlencoded',
    };
    await (await fetch(url + path, { method, headers, body })).text();
  }
  await expect
    .poll(() => lines.filter((line) => line.includes('"msg":"request"')).length)
    .toBe(requests.length);
  expect(lines.join('')).toContain('/rest/v1/orders?customer_phone=eq.•••&or=•••');
  for (const value of [phone, email, key, number, secret, '203.0.113.7']) {
    expect(lines.filter((line) => line.includes(value))).toEqual([]);
  }
  await refusing.close();
});
