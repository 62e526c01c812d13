// Makes a plain request of what came in, where nothing about it needs the care that a URL and the Web's headers take.
import type { IncomingMessage } from 'node:http';
import { PlainRequest } from '../backend/plain-request.ts';

// Signs that stand for themselves, in a path without dots and in a query.
const plainTarget = /^(\/rest\/v1\/(?:rpc\/)?\w+)(\?[!$-&(-;=?-~]+)?$/;
const plainHost = /^[a-z0-9._-]+(?::\d{1,5})?$/;

/**
 * Gives a read of the tables as it is.
 * @returns null for all else, and for what must be looked at more closely
 */
export function readPlain({ method, url, rawHeaders, headers }: IncomingMessage): PlainRequest | null {
  if (method !== 'GET' && method !== 'HEAD') return null;
  const [, pathname, search = ''] = plainTarget.exec(url ?? '') ?? [];
  if (pathname === undefined) return null;
  // Of headers that come twice, Node and the Web make different things.
  const isEachOnce = 2 * Object.keys(headers).length === rawHeaders.length;
  if (!isEachOnce || !plainHost.test(headers.host ?? '')) return null;
  return new PlainRequest(method, pathname, search, headers as Record<string, string>);
}
