// A real server, and clients that do not behave.
import { createServer, type RequestListener, type Server } from 'node:http';
import { type AddressInfo, connect, Socket } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import {
  BoundedRequest,
  type ConnectionLimits,
  defaultConnectionLimits,
  limitConnections,
} from './connection-limits.ts';

let server: Server;
let clients: Socket[] = [];
afterEach(async () => {
  for (const client of clients) client.destroy();
  clients = [];
  server.closeAllConnections();
  await new Promise((done) => server.close(done));
});

const start = async (listener: RequestListener, limits: Partial<ConnectionLimits>, trustedProxies = 0) => {
  server = createServer({ IncomingMessage: BoundedRequest }, listener);
  limitConnections(server, trustedProxies, { ...defaultConnectionLimits, ...limits });
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

test('reads no further request of a connection that is closed', async () => {
  let parsed = 0;
  await start(() => {}, {});
  server.prependListener('request', () => {
    parsed += 1;
  });
  server.on('upgrade', () => {});
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

test('clients that do not read cost all together no more than a bound, and those who read nothing', async () => {
  const large = Buffer.alloc(20_000_000);
  await start((_, response) => response.end(large), { queuedBytes: 50_000_000 });
  for (let n = 0; n < 8; n += 1) (await open(1)).client.pause();
  const reader = await open(1);
  await expect.poll(reader.received).toBeGreaterThan(large.length);
  await expect.poll(countConnections).toBeLessThanOrEqual(5);
});

test('a client that does not read is disconnected after a while, one that waits for us is not', async () => {
  const large = Buffer.alloc(20_000_000);
  await start(
    (request, response) => {
      if (request.url === '/late') setTimeout(() => response.end('late'), 600);
      else response.end(large);
    },
    { stalledMilliseconds: 150 },
  );
  (await open(1, '/large')).client.pause();
  const patient = await open(1, '/late');
  await expect.poll(patient.received).toBeGreaterThan(0);
  await expect.poll(countConnections).toBeLessThanOrEqual(1);
});

const connectFrom = (address: string) => {
  const socket = new Socket();
  Object.defineProperty(socket, 'remoteAddress', { value: address });
  clients.push(socket);
  server.emit('connection', socket);
  return socket;
};

test('a network opens so many connections at once', async () => {
  await start(() => {}, { newConnectionsPerNetwork: 1 });
  const accepted = (address: string) =>
    Array.from({ length: 30 }, () => connectFrom(address)).filter(({ destroyed }) => !destroyed).length;
  expect(accepted('192.0.2.1')).toBe(10);
  expect(accepted('198.51.100.1')).toBe(10);
});

test('a network has so many connections, except behind a proxy and on this machine', async () => {
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
