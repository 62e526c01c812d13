// Limits of connections, with a real server and misbehaving clients.
import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, Socket } from 'node:net';
import { afterEach, expect, test, vi } from 'vitest';
import { Backlog } from '../limits/backlog.ts';
import { QueueFull } from '../limits/fair-queue.ts';
import { networksOf } from '../limits/network.ts';
import {
  BoundedRequest,
  BoundedResponse,
  type ConnectionLimits,
  defaultConnectionLimits,
  limitConnections,
} from './connection-limits.ts';
import { maxConnections } from './file-limit.ts';

let server: Server;
let clients: Socket[] = [];
afterEach(async () => {
  for (const client of clients) client.destroy();
  clients = [];
  server.closeAllConnections();
  await new Promise((done) => server.close(done));
});

const start = async (
  listener: RequestListener,
  limits: Partial<ConnectionLimits>,
  trustedProxies = 0,
  backlog = new Backlog(),
) => {
  server = createServer({ IncomingMessage: BoundedRequest, ServerResponse: BoundedResponse }, listener);
  server.on('upgrade', () => {});
  limitConnections(server, trustedProxies, { ...defaultConnectionLimits, ...limits }, backlog);
  await new Promise<void>((done) => server.listen(0, '::', done));
};
const open = async (requests: number, path = '/', localAddress = '127.0.0.1') => {
  const { port } = server.address() as AddressInfo;
  const client = connect({ port, host: '127.0.0.1', localAddress });
  clients.push(client);
  let received = 0;
  client.on('data', (bytes) => {
    received += bytes.length;
  });
  const closed = new Promise((done) => client.once('close', done));
  client.on('error', () => {});
  await new Promise((done) => client.once('connect', done));
  client.write(`GET ${path} HTTP/1.1\r\nhost: shop.example\r\n\r\n`.repeat(requests));
  return { client, closed, received: () => received };
};

test('a connection that pipelines too many requests is closed, and only the first of them is handled', async () => {
  let handled = 0;
  await start(() => {
    handled += 1;
  }, {});
  await (await open(1_000)).closed;
  expect(handled).toBe(1);
});

test.each([
  [0, 'timeout=5'],
  [1, 'timeout=130'],
])('behind %i proxies an idle connection stays open for %s s', async (trustedProxies, keepAlive) => {
  await start((_, response) => response.end(), {}, trustedProxies);
  const { port } = server.address() as AddressInfo;
  const response = await fetch(`http://127.0.0.1:${port}`);
  expect(response.headers.get('keep-alive')).toBe(keepAlive);
});

test('reads no further request of a connection that is closed', async () => {
  let parsed = 0;
  await start(() => {}, {});
  server.prependListener('request', () => {
    parsed += 1;
  });
  await (await open(1_000)).closed;
  expect(parsed).toBe(defaultConnectionLimits.pipelinedRequests + 1);
});

test('requests one after another, and a few at once, are answered', async () => {
  let handled = 0;
  await start((request, response) => {
    handled += 1;
    setImmediate(() => response.end(request.url));
  }, {});
  const { received } = await open(8, '/once');
  await expect.poll(() => handled).toBe(8);
  await expect.poll(received).toBeGreaterThan(8 * '/once'.length);
  const { port } = server.address() as AddressInfo;
  for (let n = 0; n < 20; n += 1) {
    expect(await (await fetch(`http://127.0.0.1:${port}/${n}`)).text()).toBe(`/${n}`);
  }
});

const countConnections = () =>
  new Promise<number>((done) => server.getConnections((_, count) => done(count)));

test('above the limit of queued bytes, disconnects clients that do not read, but not one that reads', async () => {
  const large = Buffer.alloc(20_000_000);
  const backlog = new Backlog({ queuedBytes: 50_000_000, queuedBytesPerNetwork: 50_000_000 });
  await start((_, response) => response.end(large), {}, 0, backlog);
  for (let n = 0; n < 8; n += 1) (await open(1)).client.pause();
  const reader = await open(1);
  await expect.poll(reader.received).toBeGreaterThan(large.length);
  await expect.poll(countConnections).toBeLessThanOrEqual(5);
});

test.each<[string, RequestListener, number]>([
  ['a whole response', (_, response) => response.end(Buffer.alloc(9_000_000)), 9_000_000],
  [
    'a stream with its buffers',
    (_, response) => {
      for (let n = 0; n < 140; n += 1) response.write(Buffer.alloc(65_536));
    },
    9_000_000 + 192 * 1024,
  ],
])(
  'counts %s at once for the network of the client behind a proxy, until it is closed',
  async (_, listener, bytes) => {
    const backlog = new Backlog({ queuedBytes: 100_000_000, queuedBytesPerNetwork: 2_000_000 + bytes / 2 });
    const answered = new Promise<void>((done) => {
      void start(
        (request, response) => {
          listener(request, response);
          done();
        },
        {},
        1,
        backlog,
      ).then(async () => {
        const { client } = await open(0);
        client.pause().write('GET / HTTP/1.1\r\nhost: shop.example\r\nx-forwarded-for: 192.0.2.1\r\n\r\n');
      });
    });
    await answered;
    expect(backlog.heldBytes).toBeGreaterThanOrEqual(bytes);
    expect(() => backlog.reserve(networksOf('192.0.2.1'))).toThrow(QueueFull);
    expect(backlog.reserve(networksOf('198.51.100.1'))).toBeTypeOf('function');
    for (const client of clients) client.destroy();
    await expect.poll(() => backlog.reserve(networksOf('192.0.2.1'))).toBeTypeOf('function');
  },
);

test('disconnects a client that does not read after a timeout, but not one that waits for the server', async () => {
  const large = Buffer.alloc(20_000_000);
  const responses: Record<string, ServerResponse> = {};
  await start(
    (request, response) => {
      responses[request.url ?? ''] = response;
      if (request.url === '/large') response.end(large);
    },
    // Long enough for a busy machine to receive a request.
    { stalledMilliseconds: 1000 },
  );
  const waiting = await open(1, '/late');
  (await open(1, '/large')).client.pause();
  await expect.poll(() => Object.keys(responses).length).toBe(2);
  await expect.poll(countConnections).toBe(1);
  responses['/late']?.end('late');
  await expect.poll(waiting.received).toBeGreaterThan(0);
});

const connectFrom = (address: string) => {
  const socket = new Socket();
  Object.defineProperty(socket, 'remoteAddress', { value: address });
  clients.push(socket);
  server.emit('connection', socket);
  return socket;
};

test('limits new connections per network', async () => {
  await start(() => {}, { newConnectionsPerNetwork: 1 });
  const accepted = (address: string) =>
    Array.from({ length: 30 }, () => connectFrom(address)).filter(({ destroyed }) => !destroyed).length;
  expect(accepted('192.0.2.1')).toBe(10);
  expect(accepted('198.51.100.1')).toBe(10);
});

test('limits open connections per network, except behind a proxy and on this machine', async () => {
  const accepted = (address: string) =>
    Array.from({ length: 20 }, () => connectFrom(address)).filter(({ destroyed }) => !destroyed).length;
  await start(() => {}, { connectionsPerNetwork: 2 });
  expect([accepted('192.0.2.1'), accepted('::ffff:198.51.100.1'), accepted('2001:db8::1')]).toEqual([
    2, 2, 2,
  ]);
  expect([accepted('127.0.0.1'), accepted('::ffff:127.0.0.1'), accepted('::1')]).toEqual([20, 20, 20]);
  const [first] = clients;
  first?.destroy();
  await expect.poll(() => connectFrom('192.0.2.1').destroyed).toBe(false);
  server.close();
  await start(() => {}, { connectionsPerNetwork: 2 }, 1);
  expect(accepted('192.0.2.1')).toBe(20);
});

test('a new connection replaces the one that has waited longest for its client, not one that waits for the server', async () => {
  await start(() => {}, { connectionsPerNetwork: 3 });
  const isOpen = ({ destroyed }: Socket) => !destroyed;
  const busy = connectFrom('192.0.2.1');
  busy.emit('data', Buffer.from('GET / HTTP/1.1\r\nhost: shop.example\r\n\r\n'));
  const slowHeader = connectFrom('192.0.2.1');
  slowHeader.emit('data', Buffer.from('GET / HTTP/1.1\r\nhost: '));
  const slowBody = connectFrom('192.0.2.1');
  slowBody.emit(
    'data',
    Buffer.from('POST / HTTP/1.1\r\nhost: shop.example\r\ncontent-length: 9\r\n\r\nslow'),
  );
  const neighbour = connectFrom('192.0.2.2');
  const newcomers = [connectFrom('192.0.2.1'), connectFrom('192.0.2.1')];
  expect([slowHeader, slowBody].map(isOpen)).toEqual([false, false]);
  expect([busy, ...newcomers, neighbour].map(isOpen)).toEqual([true, true, true, true]);
  for (const newcomer of newcomers)
    newcomer.emit('data', Buffer.from('GET / HTTP/1.1\r\nhost: shop.example\r\n\r\n'));
  expect(isOpen(connectFrom('192.0.2.1'))).toBe(false);
  expect([busy, ...newcomers].map(isOpen)).toEqual([true, true, true]);
});

test('above the limit of all connections, a new one replaces the longest waiting of the network with the most', async () => {
  await start(() => {}, { connections: 6 });
  const isOpen = ({ destroyed }: Socket) => !destroyed;
  const send = (socket: Socket, text: string) => socket.emit('data', Buffer.from(text));
  const head = 'GET / HTTP/1.1\r\nhost: shop.example\r\n';
  const customer = connectFrom('198.51.100.1');
  send(customer, head);
  const webSocket = connectFrom('192.0.2.1');
  send(webSocket, `${head}connection: upgrade\r\nupgrade: websocket\r\n\r\n`);
  const served = connectFrom('192.0.2.2');
  send(served, `${head}\r\n`);
  const halves = [3, 4, 5].map((host) => connectFrom(`192.0.2.${host}`));
  for (const half of halves) send(half, head);
  const newcomers = ['203.0.113.1', '2001:db8::1'].map(connectFrom);
  expect(halves.map(isOpen)).toEqual([false, false, true]);
  // With one waiting connection each, the oldest is closed.
  const next = ['203.0.114.1', '203.0.115.1'].map(connectFrom);
  expect([customer, ...halves].map(isOpen)).toEqual([false, false, false, false]);
  expect([webSocket, served, ...newcomers, ...next].map(isOpen)).toEqual(Array(6).fill(true));
});

test('connections leave files for the database, whatever the limit', () => {
  expect([256, 1_024, 4_096, 65_536].map(maxConnections)).toEqual([192, 768, 3_072, 64_512]);
});

/** Begins a form of `length` bytes and sends `sent` of them. */
const post = async (length: number, sent: number) => {
  const posted = await open(0);
  posted.client.write(`POST / HTTP/1.1\r\nhost: shop.example\r\ncontent-length: ${length}\r\n\r\n`);
  posted.client.write(Buffer.alloc(sent));
  return posted;
};

test('disconnects the largest unfinished bodies above the limit, but not small ones or files', async () => {
  await start(
    (request, response) => {
      let received = 0;
      request.on('data', (bytes) => {
        received += bytes.length;
      });
      request.on('end', () => response.end(String(received)));
    },
    { receivedBytes: 2_000_000 },
  );
  const small = await post(400, 399);
  const file = await post(4_000_000, 2_000_000);
  for (let n = 0; n < 26; n += 1) await post(200_000, 100_000);
  await expect.poll(countConnections, { timeout: 10_000 }).toBeLessThanOrEqual(22);
  small.client.write('.');
  await expect.poll(small.received, { timeout: 10_000 }).toBeGreaterThan(0);
  file.client.write(Buffer.alloc(2_000_000));
  await expect.poll(file.received, { timeout: 10_000 }).toBeGreaterThan(0);
});

test('above the limit of unfinished bodies, longer ones wait and short ones do not', async () => {
  let total = 0;
  await start(
    (request, response) => {
      request.on('data', (bytes) => {
        total += bytes.length;
      });
      request.on('end', () => response.end('whole'));
    },
    { receivedBytes: 2_000_000 },
  );
  const flood: Awaited<ReturnType<typeof post>>[] = [];
  for (let n = 0; n < 20; n += 1) flood.push(await post(1_000_000, 900_000));
  await expect.poll(() => total).toBeGreaterThan(2_000_000);
  const short = await post(2_000, 2_000);
  await expect.poll(short.received).toBeGreaterThan(0);
  // Twenty complete bodies would be 18 MB. Each connection may send one packet before the first check.
  expect(total).toBeLessThan(3_000_000 + 20 * 2 * 65_536);
  // Waiting bodies continue when the largest have been disconnected.
  const before = total;
  await expect.poll(() => total, { timeout: 10_000 }).toBeGreaterThan(before);
  for (const { client } of flood) client.destroy();
  await expect.poll(countConnections, { timeout: 10_000 }).toBeLessThanOrEqual(1);
  const late = await post(900_000, 900_000);
  await expect.poll(late.received, { timeout: 10_000 }).toBeGreaterThan(0);
});

test('a body that was answered before it was received does not count', async () => {
  await start(
    (request, response) => {
      if (request.url === '/') response.end('too long');
      else request.resume().on('end', () => response.end('whole'));
    },
    { receivedBytes: 300_000 },
  );
  for (let n = 0; n < 8; n += 1) {
    const refused = await post(900_000, 300_000);
    await expect.poll(refused.received).toBeGreaterThan(0);
    refused.client.destroy();
  }
  await expect.poll(countConnections, { timeout: 10_000 }).toBe(0);
  const whole = await open(0);
  whole.client.write('POST /whole HTTP/1.1\r\nhost: shop.example\r\ncontent-length: 300000\r\n\r\n');
  whole.client.write(Buffer.alloc(300_000));
  await expect.poll(whole.received, { timeout: 10_000 }).toBeGreaterThan(0);
});

test('stops reading a body in tiny chunks, but not one in small chunks', async () => {
  let chunks = 0;
  await start((request, response) => {
    request.on('data', () => {
      chunks += 1;
    });
    request.on('end', () => response.end('whole'));
  }, {});
  const send = async (count: number, size: number) => {
    chunks = 0;
    const sender = await open(0);
    sender.client.write('POST / HTTP/1.1\r\nhost: shop.example\r\ntransfer-encoding: chunked\r\n\r\n');
    sender.client.write(`${size.toString(16)}\r\n${'x'.repeat(size)}\r\n`.repeat(count));
    sender.client.write('0\r\n\r\n');
    return sender;
  };
  const pushed = vi.spyOn(BoundedRequest.prototype, 'push');
  for (let n = 0; n < 3; n += 1) {
    await (await send(20_000, 1)).closed;
    expect(chunks).toBeLessThanOrEqual(65);
  }
  expect(pushed.mock.calls.length).toBeLessThan(3 * 80);
  pushed.mockRestore();
  for (const [count, size] of [
    [60, 1],
    [2_000, 64],
  ] as const) {
    const { received } = await send(count, size);
    await expect.poll(received, { timeout: 10_000 }).toBeGreaterThan(0);
    expect(chunks).toBeGreaterThanOrEqual(count);
  }
});

test('does no work on a request whose first packet has a body in tiny chunks', async () => {
  let handled = 0;
  await start((request, response) => {
    handled += 1;
    request.resume().on('end', () => response.end('whole'));
  }, {});
  const send = async (count: number) => {
    const sender = await open(0);
    const head = 'POST / HTTP/1.1\r\nhost: shop.example\r\ntransfer-encoding: chunked\r\n\r\n';
    sender.client.write(`${head}${'1\r\nx\r\n'.repeat(count)}0\r\n\r\n`);
    return sender;
  };
  await (await send(5_000)).closed;
  expect(handled).toBe(0);
  const { received } = await send(60);
  await expect.poll(received).toBeGreaterThan(0);
  expect(handled).toBe(1);
});
