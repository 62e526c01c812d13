// The shop's settings of the realtime service: visitors receive but do not send.
import type { BackendOptions } from '@jani-juice/backend';
import { maxWebSockets } from '@jani-juice/backend/http';

/**
 * Visitors send joins and heartbeats, staff also tokens; only the database sends messages, which are small. So one socket
 * may use much less memory than the client protocol asks for elsewhere.
 */
export const shopRealtime: NonNullable<BackendOptions['realtime']> = {
  publicSenders: 'privileged',
  limits: {
    connections: maxWebSockets(),
    frameBytes: 64 * 1024,
    joinBytes: 32 * 1024,
    payloadBytes: 64 * 1024,
    requestBytes: 256 * 1024,
    // A staff screen sends a join, a token an hour, and a heartbeat every 25 seconds; a tracking page a join and the heartbeats.
    framesPerSecond: 200,
    bytesPerSecond: 256 * 1024,
    framesPerNetwork: 500,
    // 10,000 sockets send 400 heartbeats per second. A frame in a packet of its own takes up to 65 µs, so this is an eighth of the thread.
    framesInAll: 2_000,
    // The shop's pages receive broadcasts. Table changes are for other programs, of which a visitor has few.
    visitorChangesPerNetwork: 100,
    visitorChangesPerSecond: 1_000,
    bufferedBytes: 512 * 1024,
  },
};
