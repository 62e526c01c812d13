// Turns a routed request into a complete document. Nothing is streamed: the server hashes the inline scripts for the
// content security policy and keeps whole pages, so it needs all of a page at once.
// The renderer is the one for servers without Node's request storage: once that has been used, Node follows every later
// request through it, also those that are answered from memory.
import { renderToReadableStream } from 'react-dom/server.edge';
import {
  type EntryContext,
  type HandleErrorFunction,
  isRouteErrorResponse,
  type RouterContextProvider,
  ServerRouter,
} from 'react-router';
import { shopContext } from './lib/shop-context.ts';

const renderTimeoutMs = 8_000;

export default async function handleRequest(
  request: Request,
  status: number,
  headers: Headers,
  routerContext: EntryContext,
  context: RouterContextProvider,
): Promise<Response> {
  let finalStatus = status;
  const gaveUp = new AbortController();
  const timer = setTimeout(
    () => gaveUp.abort(new Error('The page took too long to render')),
    renderTimeoutMs,
  );
  try {
    const document = await renderToReadableStream(
      <ServerRouter context={routerContext} url={request.url} />,
      {
        signal: gaveUp.signal,
        // Otherwise React moves large parts into scripts, which are to replace their fallbacks.
        progressiveChunkSize: Number.POSITIVE_INFINITY,
        onError(error) {
          finalStatus = 500;
          tell(error, request, context);
        },
      },
    );
    await document.allReady;
    headers.set('content-type', 'text/html; charset=utf-8');
    return new Response(request.method === 'HEAD' ? null : document, { status: finalStatus, headers });
  } finally {
    clearTimeout(timer);
  }
}

export const handleError: HandleErrorFunction = (error, { request, context }) =>
  tell(error, request, context);

/** Intended responses and client errors are not internal errors. */
function tell(error: unknown, request: Request, context: Readonly<RouterContextProvider>): void {
  if (request.signal.aborted || isRouteErrorResponse(error)) return;
  context.get(shopContext).onError(error);
}

// The server sets the context under this build's own key.
export { shopContext } from './lib/shop-context.ts';
