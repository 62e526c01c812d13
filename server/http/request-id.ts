// Request ids: they connect the log lines of one request with its error page.
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';

export const requestIdHeader = 'x-request-id';

/**
 * Gives a request an id of ours, as a header of the request and of its response. `establishClientAddress` has removed what the client
 * sent under this name.
 */
export function giveRequestId(request: IncomingMessage, response: ServerResponse): void {
  // The last part of a version 4 UUID is random: 12 characters, short enough to say on the phone.
  const id = randomUUID().slice(24);
  request.headers[requestIdHeader] = id;
  request.rawHeaders.push(requestIdHeader, id);
  response.setHeader(requestIdHeader, id);
}

/** The id of a request; undefined where it has none, such as a call of this process itself. */
export function requestIdOf({ headers }: Pick<IncomingMessage, 'headers'>): string | undefined {
  return headers[requestIdHeader]?.toString();
}

const place = /(<p [^>]*data-request-id="[^"]*"[^>]*>)(<\/p>)/;

/**
 * Shows the id on an error page (`web/ui/error-screen.tsx`).
 * @param id hexadecimal digits
 */
export function showRequestId(html: string, id: string): string {
  return html.replace(place, `$1Reference: ${id}$2`);
}
