// Writes a response with a complete body to its socket.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { PlainHeaders, PlainResponse } from './plain-response.ts';

/**
 * Writes it as a whole.
 * @param extra headers to add unless the response sets them itself
 */
export function sendPlain(
  request: IncomingMessage,
  response: ServerResponse,
  { status, statusText, headers, body }: PlainResponse,
  extra: Record<string, string> = {},
): void {
  const all: PlainHeaders = { ...extra, ...headers };
  const hasBody = request.method !== 'HEAD' && status !== 204 && status !== 304;
  const sent = typeof body === 'string' && body.length > maxStringLength ? Buffer.from(body) : body;
  if (hasBody) all['content-length'] = String(sent === null ? 0 : Buffer.byteLength(sent));
  if (statusText !== '') response.statusMessage = statusText;
  response.writeHead(status, all).end(hasBody ? (sent ?? undefined) : undefined);
}

/**
 * Maximum length of a string that is written as one, in the same packet as its header. To convert a longer one, Node would reserve
 * three times its length until it is read.
 */
const maxStringLength = 16 * 1024;
