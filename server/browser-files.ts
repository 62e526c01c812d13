// The built files for browsers, from the folder they were built into.
import type { IncomingMessage, ServerResponse } from 'node:http';
import sirv from 'sirv';

/** Answers a request or passes it on. */
export type Middleware = (request: IncomingMessage, response: ServerResponse, next: () => void) => void;

const year = 365 * 24 * 60 * 60;

/**
 * Serves the files that are in the folder now; passes on every request for anything else.
 * @param folder what the build made
 * @param headers sent with every file
 */
export function serveBrowserFiles(folder: string, headers: Readonly<Record<string, string>>): Middleware {
  const serve = sirv(folder, {
    etag: true,
    brotli: true,
    gzip: true,
    setHeaders: (response, pathname) => {
      for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
      const isNamedByContent = pathname.startsWith('/assets/');
      const isArt = pathname.startsWith('/art/') || pathname.startsWith('/fonts/');
      const maxAge = isNamedByContent ? year : isArt ? 7 * 24 * 60 * 60 : 60 * 60;
      response.setHeader(
        'cache-control',
        // A service worker that is kept would keep everybody on its version.
        pathname === '/sw.js'
          ? 'no-cache'
          : `public, max-age=${maxAge}${isNamedByContent ? ', immutable' : ''}`,
      );
    },
  });
  return (request, response, next) => {
    dropUnreadableRange(request);
    // A file that went away since the start (another build, say) ends this answer, not the process.
    response.once('pipe', (source) => source.once('error', () => response.destroy()));
    serve(request, response, next);
  };
}

/** One range from a first to a last byte is served in part; of anything else the whole file is sent, as HTTP allows. */
function dropUnreadableRange({ headers }: IncomingMessage): void {
  if (headers.range === undefined) return;
  const [, first, last] = /^bytes=(\d{1,15})-(\d{0,15})$/.exec(headers.range) ?? [];
  const isReadable = first !== undefined && (!last || Number(first) <= Number(last));
  // A range on the condition of an unchanged file would be sent without looking at the condition.
  if (!isReadable || headers['if-range'] !== undefined) delete headers.range;
}
