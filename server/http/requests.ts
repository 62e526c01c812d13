// What the server reads of a request beside its URL.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { rawHeader } from '@jani-juice/backend/http';
import { ClientDisconnected } from '@jani-juice/backend/limits';
import type { Encoding } from '../pages/page-cache.ts';

export function isRead(request: IncomingMessage): boolean {
  return request.method === 'GET' || request.method === 'HEAD';
}

/**
 * Whether a body was read in part only. Its connection must then be closed with a header, or a proxy would send the next
 * customer's request on it.
 */
export function isPartlyRead(request: IncomingMessage): boolean {
  return request.readableDidRead && !request.complete;
}

/** The client's IP address, valid after `establishClientAddress`. */
export function addressOf({ headers }: IncomingMessage): string {
  return String(headers['x-forwarded-for'] ?? '');
}

/** Returns a signal that is aborted when the client disconnects before its response is complete. */
export function signalOf(response: ServerResponse | Duplex): () => AbortSignal {
  return () => {
    const disconnected = new AbortController();
    // Most responses are finished by then. A reason of ours, because the default one is created with a stack trace.
    const onClose = () => {
      if (!response.writableFinished) disconnected.abort(new ClientDisconnected());
    };
    if (response.destroyed) onClose();
    else response.once('close', onClose);
    return disconnected.signal;
  };
}

/** The best encoding of text that a client accepts. */
export function encodingFor(request: IncomingMessage): Encoding {
  return encodings.of(rawHeader(request, 'accept-encoding') ?? '');
}

/** The encoding for an Accept-Encoding header, cached because browsers send the same few values. */
const encodings = {
  known: new Map<string, Encoding>(),
  of(accepted: string): Encoding {
    const cached = this.known.get(accepted);
    if (cached) return cached;
    const best = bestEncoding(accepted);
    if (this.known.size < 100 && accepted.length < 200) this.known.set(accepted, best);
    return best;
  },
};

function bestEncoding(accepted: string): Encoding {
  if (/\bbr\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/.test(accepted)) return 'br';
  if (/\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/.test(accepted)) return 'gzip';
  return 'identity';
}
