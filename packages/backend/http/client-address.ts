// The IP address of a client, as reported by our own proxies, never by the client.
import type { IncomingMessage } from 'node:http';

const forwardedFor = 'x-forwarded-for';
// A hosted project's network sets cf-connecting-ip, and the database trusts it there. Here only a client can have written it. Request ids
// are made here (`request-id.ts`).
const untrusted = new Set([forwardedFor, 'cf-connecting-ip', 'x-request-id']);

/**
 * The client's IP address. Reads the raw headers, because Node's object of them is only built where it is used.
 * @param trustedProxies number of our proxies in front; each appends the address it saw to X-Forwarded-For
 */
export function clientAddressOf({ rawHeaders, socket }: IncomingMessage, trustedProxies: number): string {
  const addresses: string[] = [];
  for (let index = 0; trustedProxies > 0 && index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index];
    if (name?.length !== forwardedFor.length || name.toLowerCase() !== forwardedFor) continue;
    for (const part of rawHeaders[index + 1]?.split(',') ?? []) {
      const address = part.trim();
      if (address) addresses.push(address);
    }
  }
  addresses.push(socket.remoteAddress ?? '');
  const address = addresses[Math.max(0, addresses.length - 1 - trustedProxies)] ?? '';
  if (!address.includes(':')) return address;
  // Some proxies append the port, which changes with each connection.
  return address
    .replace(/^(\d+(?:\.\d+){3}):\d+$/, '$1')
    .replace(/^\[(.*)\](?::\d+)?$/, '$1')
    .replace(/^::ffff:(?=\d+\.)/, '');
}

/**
 * Replaces X-Forwarded-For of a request by the client's IP address, and removes other headers that only a client can have written.
 * @param trustedProxies number of our proxies in front
 * @returns the client's IP address
 */
export function establishClientAddress(request: IncomingMessage, trustedProxies: number): string {
  const address = clientAddressOf(request, trustedProxies);
  const { rawHeaders } = request;
  const trusted: string[] = [];
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? '';
    if (!untrusted.has(name.toLowerCase())) trusted.push(name, rawHeaders[index + 1] ?? '');
  }
  request.rawHeaders = [...trusted, forwardedFor, address];
  for (const name of untrusted) delete request.headers[name];
  request.headers[forwardedFor] = address;
  return address;
}
