// Yardstick: a bare node:http server that sends bytes from memory: 5 kB, or those of SOURCE_URL under the same headers.
import { createServer, get } from 'node:http';

const { SOURCE_URL, PORT } = process.env;
let body = Buffer.alloc(5_000, 'x');
let headers = { 'content-type': 'text/plain' };
if (SOURCE_URL) {
  ({ body, headers } = await new Promise((done, fail) => {
    get(SOURCE_URL, { headers: { 'accept-encoding': 'br' } }, (response) => {
      const chunks = [];
      response.on('data', (chunk) => chunks.push(chunk));
      response.on('end', () => done({ body: Buffer.concat(chunks), headers: response.headers }));
    }).once('error', fail);
  }));
}
for (const name of ['date', 'connection', 'keep-alive', 'transfer-encoding']) delete headers[name];
headers['content-length'] = String(body.length);

const server = createServer((_request, response) => response.writeHead(200, headers).end(body));
server.listen(Number(PORT), '127.0.0.1', () => process.send?.('ready'));
