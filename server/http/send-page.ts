// Sends pages from memory: encoded, and as 304 to a client that has them.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { rawHeader } from '@jani-juice/backend/http';
import type { CachedPage, Encoding } from '../pages/page-cache.ts';
import { encodingFor } from './requests.ts';
import { isStorefrontPath, storefrontPermissions } from './security-headers.ts';

export type SendPage = (request: IncomingMessage, response: ServerResponse, page: CachedPage) => void;

/** @param extra headers of every page */
export function createPageSender(extra: Readonly<Record<string, string>>): SendPage {
  // The headers of a page per encoding, cached because most responses are the same few pages.
  const finished = new WeakMap<Buffer, string[]>();
  const headersOf = (page: CachedPage, encoding: Encoding, body: Buffer, path: string): string[] => {
    // Each page has a body of its own, so its path decides once.
    const own = isStorefrontPath(path) ? { ...extra, ...storefrontPermissions } : extra;
    const ready = finished.get(body) ?? finishHeaders(page, encoding, body.length, own);
    finished.set(body, ready);
    return ready;
  };
  return (request, response, page) => {
    const encoding = encodingFor(request);
    const body = page.bodies[encoding];
    if (!body) throw new Error(`the page has no body in the encoding ${encoding}`);
    const headers = headersOf(page, encoding, body, request.url ?? '/');
    if (page.status === 200 && rawHeader(request, 'if-none-match') === page.etag) {
      // A 304 has no body, so the stored length does not apply.
      response.writeHead(304, headers.slice(0, -2)).end();
      return;
    }
    // A page without its data, because the database is not available.
    response.writeHead(page.status, page.status === 503 ? [...headers, 'retry-after', '5'] : headers);
    response.end(request.method === 'HEAD' ? undefined : body);
  };
}

function finishHeaders(
  page: CachedPage,
  encoding: Encoding,
  length: number,
  extra: Readonly<Record<string, string>>,
): string[] {
  const headers: Record<string, string> = { ...extra, ...page.headers, etag: page.etag };
  headers.vary = headers.vary ? `${headers.vary}, accept-encoding` : 'accept-encoding';
  if (encoding !== 'identity') headers['content-encoding'] = encoding;
  // Last on purpose: an answer without a body leaves it out.
  headers['content-length'] = String(length);
  return Object.entries(headers).flat();
}
