// Renders a matched request to a complete document. It does not stream, because the server hashes the inline scripts
// for the content security policy and caches whole pages.
// Uses React's edge renderer: the Node renderer enables AsyncLocalStorage, which then slows down every later request,
// including those answered from the page cache.
import { renderToReadableStream, renderToString } from 'react-dom/server.edge';
import {
  type EntryContext,
  type HandleErrorFunction,
  isRouteErrorResponse,
  type RouterContextProvider,
  ServerRouter,
} from 'react-router';
import { shopContext } from './lib/shop-context.ts';

const renderTimeoutMs = 8_000;

/** How React marks a part that it left to the browser. */
const leftOut = '<!--$!-->';

export default async function handleRequest(
  request: Request,
  status: number,
  headers: Headers,
  routerContext: EntryContext,
  context: RouterContextProvider,
): Promise<Response> {
  await readLoaderData(routerContext);
  const router = () => (
    // It locks the stream, whose data is in the cache: each rendering needs another one.
    <ServerRouter
      context={{ ...routerContext, serverHandoffStream: new ReadableStream() }}
      url={request.url}
    />
  );
  // Takes half as long as a stream, which encodes each text by itself, but waits for nothing, and reports no error of a part.
  let html = `<!DOCTYPE html>${renderToString(router())}`;
  let finalStatus = status;
  if (html.includes(leftOut)) {
    html = await renderWithParts(router(), (error) => {
      finalStatus = 500;
      reportError(error, request, context);
    });
  }
  headers.set('content-type', 'text/html; charset=utf-8');
  return new Response(request.method === 'HEAD' ? null : html, { status: finalStatus, headers });
}

/** Reads the loaders' data, which the router would render piece by piece, and waits for promises in it. */
async function readLoaderData({ serverHandoffStream, renderMeta }: EntryContext): Promise<void> {
  if (!serverHandoffStream || !renderMeta) return;
  const value = await new Response(serverHandoffStream).text();
  renderMeta.streamCache = { 0: Object.assign(Promise.resolve(), { result: { done: true, value } }) };
}

/** Renders a page that has a part which is loaded for the first time in this process, or which fails. */
async function renderWithParts(page: React.ReactElement, onError: (error: unknown) => void): Promise<string> {
  const gaveUp = new AbortController();
  const timer = setTimeout(
    () => gaveUp.abort(new Error('The page took too long to render')),
    renderTimeoutMs,
  );
  try {
    const document = await renderToReadableStream(page, {
      signal: gaveUp.signal,
      // Prevents React from moving large parts out of order into scripts that would replace their fallbacks.
      progressiveChunkSize: Number.POSITIVE_INFINITY,
      onError,
    });
    await document.allReady;
    return await new Response(document).text();
  } finally {
    clearTimeout(timer);
  }
}

export const handleError: HandleErrorFunction = (error, { request, context }) =>
  reportError(error, request, context);

/** Intended responses and client errors are not internal errors. */
function reportError(error: unknown, request: Request, context: Readonly<RouterContextProvider>): void {
  if (request.signal.aborted || isRouteErrorResponse(error)) return;
  context.get(shopContext).onError(error);
}

// The server sets the context under this build's own key, and adds the style sheet to the pages.
export { shopContext } from './lib/shop-context.ts';
export { addStyleSheet } from './storefront/layout/storefront-sheet.tsx';
