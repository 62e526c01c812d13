// Turns a routed request into a complete document. Nothing is streamed: the server hashes the inline scripts for the
// content security policy and keeps whole pages, so it needs all of a page at once.
import { Writable } from 'node:stream';
import { renderToPipeableStream } from 'react-dom/server';
import { type EntryContext, ServerRouter } from 'react-router';

const patience = 8_000;

export default function handleRequest(
  request: Request,
  status: number,
  headers: Headers,
  routerContext: EntryContext,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let finalStatus = status;
    const document = new Writable({
      write(chunk: Buffer, _encoding, done) {
        chunks.push(chunk);
        done();
      },
      final(done) {
        headers.set('content-type', 'text/html; charset=utf-8');
        const body = request.method === 'HEAD' ? null : Buffer.concat(chunks);
        resolve(new Response(body, { status: finalStatus, headers }));
        done();
      },
    });
    const { pipe, abort } = renderToPipeableStream(
      <ServerRouter context={routerContext} url={request.url} />,
      {
        onAllReady() {
          clearTimeout(timer);
          pipe(document);
        },
        onShellError(error) {
          clearTimeout(timer);
          reject(error);
        },
        onError(error) {
          finalStatus = 500;
          console.error(error);
        },
      },
    );
    const timer = setTimeout(() => abort(new Error('The page took too long to render')), patience);
  });
}

// The server sets the context under this build's own key.
export { shopContext } from './lib/shop-context.ts';
