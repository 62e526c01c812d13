// Where a request really comes from: what proxies of ours say, never what the client says.
import type { IncomingMessage } from 'node:http';

/**
 * Replaces X-Forwarded-For of a request by the one address that can be trusted.
 * @param trustedProxies how many proxies of ours stand in front; each adds the address it saw at the end of the list
 */
export function establishClientAddress(request: IncomingMessage, trustedProxies: number): void {
  const told = String(request.headers['x-forwarded-for'] ?? '')
    .split(',')
    .map((part) => part.trim())
    .filter(Boolean);
  const seen = [...told, request.socket.remoteAddress ?? ''];
  const address = seen[Math.max(0, seen.length - 1 - trustedProxies)] ?? '';
  const kept: string[] = [];
  for (let index = 0; index < request.rawHeaders.length; index += 2) {
    const [name = '', value = ''] = request.rawHeaders.slice(index, index + 2);
    if (name.toLowerCase() !== 'x-forwarded-for') kept.push(name, value);
  }
  // Some proxies add the port, which is another one each time.
  const plain = address
    .replace(/^(\d+(?:\.\d+){3}):\d+$/, '$1')
    .replace(/^\[(.*)\](?::\d+)?$/, '$1')
    .replace(/^::ffff:(?=\d+\.)/, '');
  request.rawHeaders = [...kept, 'x-forwarded-for', plain];
  request.headers['x-forwarded-for'] = plain;
}
