// The IP address of a client, as reported by our own proxies, never by the client.
import type { IncomingMessage } from 'node:http';

// A hosted project's network sets cf-connecting-ip, and the database trusts it there. Here only a client can have written it. Request ids
// are made here (`request-id.ts`).
const untrusted = new Set(['cf-connecting-ip', 'x-request-id']);

/**
 * Replaces X-Forwarded-For of a request by the one address that can be trusted.
 * @param trustedProxies number of our proxies in front; each appends the address it saw to the list
 */
export function establishClientAddress(request: IncomingMessage, trustedProxies: number): void {
  const headers: string[] = [];
  const forwardedFor: string[] = [];
  const { rawHeaders } = request;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? '';
    const value = rawHeaders[index + 1] ?? '';
    const lowerCaseName = name.toLowerCase();
    if (lowerCaseName === 'x-forwarded-for') forwardedFor.push(...value.split(','));
    else if (!untrusted.has(lowerCaseName)) headers.push(name, value);
  }
  const addresses = forwardedFor.map((part) => part.trim()).filter(Boolean);
  addresses.push(request.socket.remoteAddress ?? '');
  const address = addresses[Math.max(0, addresses.length - 1 - trustedProxies)] ?? '';
  // Some proxies append the port, which changes with each connection.
  const plain = address
    .replace(/^(\d+(?:\.\d+){3}):\d+$/, '$1')
    .replace(/^\[(.*)\](?::\d+)?$/, '$1')
    .replace(/^::ffff:(?=\d+\.)/, '');
  headers.push('x-forwarded-for', plain);
  request.rawHeaders = headers;
  request.headers['x-forwarded-for'] = plain;
  for (const name of untrusted) delete request.headers[name];
}
