// How a server starts and closes: an unusable address is a sentence, and answers that were begun reach their clients.
import { createServer, type RequestListener, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { expect, test } from 'vitest';
import { closeServer, listen } from './listen.ts';

const start = async (listener: RequestListener): Promise<Server> => {
  const server = createServer(listener);
  await listen(server, { port: 0, host: '127.0.0.1' });
  return server;
};

/** Opens a connection and sends a request. Only `readAll` reads the response. */
const ask = async (server: Server) => {
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  client.write('GET / HTTP/1.1\r\nhost: shop.example\r\n\r\n');
  await new Promise((done) => client.once('readable', done));
  const readAll = async () => {
    let text = '';
    for await (const chunk of client) text += chunk;
    return text;
  };
  return { client, readAll };
};

const refusal = (at: Parameters<typeof listen>[1]) =>
  listen(createServer(), at).then(
    () => 'listens',
    (error: Error) => `${error.name}: ${error.message}`,
  );

test('names the setting of an address that cannot be used', async () => {
  const server = await start(() => {});
  const { port } = server.address() as AddressInfo;
  expect(await refusal({ port, host: '127.0.0.1' })).toBe(
    `UnusableAddress: Port ${port} is taken; set PORT to a free one.`,
  );
  const settings = { port: 'PGRST_SERVER_PORT', host: 'PGRST_SERVER_HOST' };
  expect(await refusal({ port, host: '127.0.0.1', settings })).toContain('set PGRST_SERVER_PORT to a free');
  // Reserved for documentation: no machine has it.
  expect(await refusal({ port: 0, host: '192.0.2.1' })).toMatch(
    /^UnusableAddress: No server can listen on 192\.0\.2\.1 \(.+\); set HOST to an IP address of this machine\.$/,
  );
  expect(await refusal({ path: '/no/such/folder/socket' })).toMatch(
    /^UnusableAddress: The socket file \/no\/such\/folder\/socket cannot be used \(.+\)\.$/,
  );
  await closeServer(server);
});

test('closes idle connections immediately', async () => {
  const server = await start((_, response) => response.end('answer'));
  const { readAll } = await ask(server);
  const startedAt = performance.now();
  await closeServer(server);
  expect(performance.now() - startedAt).toBeLessThan(1_000);
  expect(await readAll()).toContain('answer');
});

test('sends an answer to its end to a client that reads slowly', async () => {
  const body = 'x'.repeat(20_000_000);
  const server = await start((_, response) => response.end(body));
  const { readAll } = await ask(server);
  const closed = closeServer(server);
  // Two checks of idle connections.
  await new Promise((done) => setTimeout(done, 120));
  expect((await readAll()).length).toBeGreaterThan(body.length);
  await closed;
});

test('answers a request that arrives on an open connection, and asks for no more', async () => {
  const server = await start((request, response) => response.end(request.url));
  const { client, readAll } = await ask(server);
  const closed = closeServer(server);
  client.write('GET /next HTTP/1.1\r\nhost: shop.example\r\n\r\n');
  expect(await readAll()).toMatch(/connection: keep-alive[\s\S]*connection: close[\s\S]*\/next$/i);
  await closed;
});

test('accepts no connection while it closes', async () => {
  const server = await start((_, response) => response.write('begun'));
  const { port } = server.address() as AddressInfo;
  const { client } = await ask(server);
  const closed = closeServer(server);
  await expect(fetch(`http://127.0.0.1:${port}`)).rejects.toThrow('fetch failed');
  client.destroy();
  await closed;
});
