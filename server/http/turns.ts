// When a request begins: at once, or in the share of its client (packages/backend/decisions/fair-share.md).
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Backend } from '@jani-juice/backend';
import { isClientDisconnect } from '@jani-juice/backend/http';
import {
  ClientDisconnected,
  type FairShare,
  partners,
  queueRejectionStatus,
  visitorAt,
} from '@jani-juice/backend/limits';
import type { Log } from '../monitoring/log.ts';
import { addressOf, signalOf } from './requests.ts';

interface TurnOptions {
  fairShare: FairShare;
  backend: Pick<Backend, 'knowsSender'> | null;
  noteRefusal: (request: IncomingMessage, status: number, reason: string) => void;
  log: Log;
}

/**
 * @returns `enter`: begins a request in its client's share. `startSoon`: begins one that need not wait, such as a cached page; in its
 * client's share (`address`) while there are too many of them
 */
export function createTurns({ fairShare, backend, noteRefusal, log }: TurnOptions) {
  return {
    enter(request: IncomingMessage, response: ServerResponse, begin: () => void): void {
      const isPartner = backend?.knowsSender(request.url?.split('?', 1)[0] ?? '/') ?? false;
      const client = isPartner ? partners : visitorAt(addressOf(request));
      const signal = signalOf(response);
      fairShare.entry
        .run(client, async () => void begin(), { signal })
        .catch((error: unknown) => {
          if (error instanceof ClientDisconnected) return;
          const status = queueRejectionStatus(error);
          noteRefusal(request, status, 'queue full');
          response.writeHead(status, { 'retry-after': '5', connection: 'close', 'content-length': 0 }).end();
        });
    },
    startSoon(address: string, response: ServerResponse, begin: () => void): void {
      if (fairShare.startsAtOnce(address)) {
        begin();
        return;
      }
      const signal = signalOf(response);
      fairShare.direct
        .run(visitorAt(address), async () => void begin(), { signal })
        .catch((error: unknown) => {
          if (!isClientDisconnect(error)) log.error({ error: String(error) }, 'a cached answer failed');
          response.destroy();
        });
    },
  };
}
