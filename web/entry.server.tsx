// Renders a matched request to a complete document. It does not stream, because the server hashes the inline scripts
// for the content security policy and caches whole pages.
// Uses React's edge renderer: the Node renderer enables AsyncLocalStorage, which then slows down every later request,
// including those answered from the page cache.
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
        // Prevents React from moving large parts out of order into scripts that would replace their fallbacks.
        progressiveChunkSize: Number.POSITIVE_INFINITY,
        onError(error) {
          finalStatus = 500;
          reportError(error, request, context);
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
  reportError(error, request, context);

/** Intended responses and client errors are not internal errors. */
function reportError(error: unknown, request: Request, context: Readonly<RouterContextProvider>): void {
  if (request.signal.aborted || isRouteErrorResponse(error)) return;
  context.get(shopContext).onError(error);
}

// The server sets the context under this build's own key, and adds the style sheet to the pages.
export { shopContext } from './lib/shop-context.ts';
export { addStyleSheet } from './storefront/layout/storefront-sheet.tsx';
