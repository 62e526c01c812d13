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
  if (hasBody) all['content-length'] = String(body === null ? 0 : Buffer.byteLength(body));
  if (statusText !== '') response.statusMessage = statusText;
  response.writeHead(status, all).end(hasBody ? (body ?? undefined) : undefined);
}
