// Where a request really comes from: what proxies of ours say, never what the client says.
import type { IncomingMessage } from 'node:http';

// A hosted project's network sets cf-connecting-ip, and the database trusts it there. Here only a client can have written it. Request ids
// are made here (`request-id.ts`).
const untrusted = new Set(['cf-connecting-ip', 'x-request-id']);

/**
 * Replaces X-Forwarded-For of a request by the one address that can be trusted.
 * @param trustedProxies how many proxies of ours stand in front; each adds the address it saw at the end of the list
 */
export function establishClientAddress(request: IncomingMessage, trustedProxies: number): void {
  const kept: string[] = [];
  const told: string[] = [];
  const { rawHeaders } = request;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? '';
    const value = rawHeaders[index + 1] ?? '';
    const lowerCaseName = name.toLowerCase();
    if (lowerCaseName === 'x-forwarded-for') told.push(...value.split(','));
    else if (!untrusted.has(lowerCaseName)) kept.push(name, value);
  }
  const seen = told.map((part) => part.trim()).filter(Boolean);
  seen.push(request.socket.remoteAddress ?? '');
  const address = seen[Math.max(0, seen.length - 1 - trustedProxies)] ?? '';
  // Some proxies add the port, which is another one each time.
  const plain = address
    .replace(/^(\d+(?:\.\d+){3}):\d+$/, '$1')
    .replace(/^\[(.*)\](?::\d+)?$/, '$1')
    .replace(/^::ffff:(?=\d+\.)/, '');
  kept.push('x-forwarded-for', plain);
  request.rawHeaders = kept;
  request.headers['x-forwarded-for'] = plain;
  for (const name of untrusted) delete request.headers[name];
}
