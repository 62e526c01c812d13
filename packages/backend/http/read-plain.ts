// Creates a plain request where the URL and the headers need no normalisation.
import type { IncomingMessage } from 'node:http';
import { PlainRequest } from './plain-request.ts';

// Characters that URL parsing does not change, in a path without dots and in a query.
const plainTarget = /^(\/rest\/v1\/(?:rpc\/)?\w+)(\?[!$-&(-;=?-~]+)?$/;
const plainHost = /^[a-z0-9._-]+(?::\d{1,5})?$/;

/**
 * Converts a read of a table to a plain request.
 * @returns null for any other request, and for one that needs normalisation
 */
export function readPlain({ method, url, rawHeaders, headers }: IncomingMessage): PlainRequest | null {
  if (method !== 'GET' && method !== 'HEAD') return null;
  const [, pathname, search = ''] = plainTarget.exec(url ?? '') ?? [];
  if (pathname === undefined) return null;
  // Node and the Fetch API combine repeated headers differently.
  const isEachOnce = 2 * Object.keys(headers).length === rawHeaders.length;
  if (!isEachOnce || !plainHost.test(headers.host ?? '')) return null;
  return new PlainRequest(method, pathname, search, headers as Record<string, string>);
}
