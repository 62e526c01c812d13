// Serves the built files for browsers.
import type { IncomingMessage, ServerResponse } from 'node:http';
import sirv from 'sirv';

/** Answers a request or passes it on. */
export type Middleware = (request: IncomingMessage, response: ServerResponse, next: () => void) => void;

const year = 365 * 24 * 60 * 60;

/** How long browsers may use a file of a build. */
export function cacheControlOf(pathname: string): string {
  // A cached service worker would keep browsers on its version.
  if (pathname === '/sw.js') return 'no-cache';
  const isNamedByContent = pathname.startsWith('/assets/');
  const isArt = pathname.startsWith('/art/') || pathname.startsWith('/fonts/');
  const maxAge = isNamedByContent ? year : isArt ? 7 * 24 * 60 * 60 : 60 * 60;
  return `public, max-age=${maxAge}${isNamedByContent ? ', immutable' : ''}`;
}

/**
 * Serves the files that are in the folder at the start, and passes on every other request.
 * @param folder output of the build
 * @param headers sent with every file
 */
export function serveBrowserFiles(folder: string, headers: Readonly<Record<string, string>>): Middleware {
  const serve = sirv(folder, {
    etag: true,
    brotli: true,
    gzip: true,
    setHeaders: (response, pathname) => {
      for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
      response.setHeader('cache-control', cacheControlOf(pathname));
    },
  });
  return (request, response, next) => {
    dropUnreadableRange(request);
    // A file deleted since the start (by another build, for example) ends this response, not the process.
    response.once('pipe', (source) => source.once('error', () => response.destroy()));
    serve(request, response, next);
  };
}

/** Serves one range with a first and a last byte; for any other range the whole file is sent, as HTTP allows. */
function dropUnreadableRange({ headers }: IncomingMessage): void {
  if (headers.range === undefined) return;
  const [, first, last] = /^bytes=(\d{1,15})-(\d{0,15})$/.exec(headers.range) ?? [];
  const isReadable = first !== undefined && (!last || Number(first) <= Number(last));
  // The file server ignores If-Range, so such requests get the whole file.
  if (!isReadable || headers['if-range'] !== undefined) delete headers.range;
}
