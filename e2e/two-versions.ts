// A proxy that simulates a new build while pages are open: at first, files have the names of an older build.
import { createServer } from 'node:http';
import { freePort } from '../scripts/tests/free-port.ts';

export interface TwoVersions {
  url: string;
  /** Removes the files of the older build. */
  replace(): void;
  close(): void;
}

/** Starts the proxy in front of a shop. */
export async function twoVersionsOf(shopUrl: string): Promise<TwoVersions> {
  let isOld = true;
  const server = createServer(async (request, response) => {
    const path = request.url ?? '/';
    if (!isOld && path.startsWith('/assets/old/')) {
      response.writeHead(404).end();
      return;
    }
    const body: Buffer[] = [];
    for await (const piece of request) body.push(piece as Buffer);
    const answer = await fetch(shopUrl + path.replace('/assets/old/', '/assets/'), {
      method: request.method ?? 'GET',
      headers: {
        'content-type': request.headers['content-type'] ?? '',
        accept: request.headers.accept ?? '*/*',
        apikey: String(request.headers.apikey ?? ''),
      },
      redirect: 'manual',
      ...(body.length > 0 ? { body: Buffer.concat(body) } : {}),
    });
    const headers = Object.fromEntries(answer.headers);
    for (const name of ['content-encoding', 'content-length', 'transfer-encoding', 'connection', 'etag'])
      delete headers[name];
    let content = Buffer.from(await answer.arrayBuffer());
    if (isOld && /html|javascript/.test(headers['content-type'] ?? '')) {
      // Rewriting changes the inline scripts, so their hashes no longer match.
      delete headers['content-security-policy'];
      const text = content.toString().replaceAll('"/assets/', '"/assets/old/');
      content = Buffer.from(path === '/sw.js' ? `${text}\n// the version before` : text);
    }
    response.writeHead(answer.status, headers).end(content);
  });
  const port = await freePort();
  await new Promise<void>((done) => server.listen(port, () => done()));
  return {
    url: `http://localhost:${port}`,
    replace() {
      isOld = false;
    },
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}
