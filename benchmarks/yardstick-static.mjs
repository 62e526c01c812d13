// Yardstick: a bare node:http server that sends the same bytes under the same headers, from memory.
import { createServer, get } from 'node:http';

const { body, headers } = await new Promise((done, fail) => {
  get(process.env.SOURCE_URL, { headers: { 'accept-encoding': 'br' } }, (response) => {
    const chunks = [];
    response.on('data', (chunk) => chunks.push(chunk));
    response.on('end', () => done({ body: Buffer.concat(chunks), headers: response.headers }));
  }).once('error', fail);
});
for (const name of ['date', 'connection', 'keep-alive', 'transfer-encoding']) delete headers[name];
headers['content-length'] = String(body.length);

const server = createServer((_request, response) => response.writeHead(200, headers).end(body));
server.listen(Number(process.env.PORT), '127.0.0.1', () => process.send?.('ready'));
