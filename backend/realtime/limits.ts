// How much one client, the clients of one network, and all of them together may ask of this process.
import { NetworkQuota, NetworkRate } from '../network-limits.ts';

/**
 * Bounds of the realtime service. What is "per network" is the allowance of an IPv4 address or an IPv6 /64; wider networks have a
 * multiple of it (`backend/network-limits.ts`). Clients without a known address have no such bounds, nor has the secret key.
 */
export interface Limits {
  /** Bytes of one frame from a client. */
  frameBytes: number;
  /** Bytes of a join: its channel retains what it asks for. */
  joinBytes: number;
  /** Bytes of what one broadcast carries. */
  payloadBytes: number;
  /** Bytes of an HTTP request. */
  requestBytes: number;
  /** Messages of an HTTP request. */
  messagesPerRequest: number;

  /** Sockets of this process. Once all are taken, the networks with the most make room for others. */
  connections: number;
  /** Sockets per network. */
  connectionsPerNetwork: number;
  /** Topics one socket may be on. */
  channelsPerConnection: number;
  /** Channels per network; one counts once more for each KiB of its join. */
  channelsPerNetwork: number;
  /** Subscriptions to changes of tables per network; one with a filter, which each change is tested by, counts ten times. */
  changesPerNetwork: number;

  /** Joins one socket may try per second. */
  joinsPerSecond: number;
  /**
   * Joins, new tokens and HTTP requests per network and second, with a burst of ten seconds. One counts once more for each query
   * that it asks of the database and for each 16 KiB of an HTTP request; five handshakes count as one.
   */
  callsPerNetwork: number;
  /** Messages one socket may send to its channels per second; more close the channel. */
  messagesPerSecond: number;
  /** Frames of any kind one socket may send per second; more close the connection. */
  framesPerSecond: number;
  /** Frames per network and second; one counts once more for each 4 KiB. More close the connection. */
  framesPerNetwork: number;
  /**
   * Deliveries that clients may cause per network and second: messages times their receivers in this process. A message counts once
   * more for each 32 KiB. What the database sends is not counted.
   */
  deliveriesPerNetwork: number;
  /** Deliveries that all clients together may cause per second. */
  deliveriesPerSecond: number;

  /** Presence messages per channel in 30 seconds. */
  presenceCalls: number;
  /** Bytes that one socket may be present with on all of its channels: they are retained as long as it is. */
  presenceBytes: number;
  /** Bytes that all who are present on one topic are present with: each join is sent all of them. */
  presenceBytesPerTopic: number;

  /**
   * Bytes that may wait for a slow reader before changes of tables wait for it; with twice as many it is let go. At least half of
   * `payloadBytes`, or a large message would be a reader's last.
   */
  bufferedBytes: number;
  /** Bytes that may wait for the readers of one network, before those that do not read are let go. */
  queuedBytesPerNetwork: number;
  /** Bytes that may wait for all readers, before those that do not read are let go. */
  queuedBytes: number;
  /** Milliseconds such a reader has to make room before it is let go: for so long it can hold up the others. */
  patienceMilliseconds: number;
  /** The same for visitors (role `anon`): a stranger may open many sockets and read from none. */
  visitorPatienceMilliseconds: number;
  /** Milliseconds without any traffic before a socket is closed. */
  idleMilliseconds: number;
}

/** The bounds a hosted project has, where it has them. */
export const defaultLimits: Limits = {
  frameBytes: 5_000_000,
  joinBytes: 64 * 1024,
  payloadBytes: 3_000_000,
  requestBytes: 5_000_000,
  messagesPerRequest: 100,
  connections: 10_000,
  connectionsPerNetwork: 500,
  channelsPerConnection: 100,
  channelsPerNetwork: 2_000,
  changesPerNetwork: 500,
  joinsPerSecond: 100,
  callsPerNetwork: 50,
  messagesPerSecond: 100,
  framesPerSecond: 1_000,
  framesPerNetwork: 5_000,
  deliveriesPerNetwork: 10_000,
  deliveriesPerSecond: 50_000,
  presenceCalls: 5,
  presenceBytes: 256 * 1024,
  presenceBytesPerTopic: 512 * 1024,
  bufferedBytes: 2_000_000,
  queuedBytesPerNetwork: 16_000_000,
  queuedBytes: 64_000_000,
  patienceMilliseconds: 2_000,
  visitorPatienceMilliseconds: 100,
  idleMilliseconds: 60_000,
};

/** The bounds that clients of this process share. */
export interface SharedLimits {
  channels: NetworkQuota;
  changes: NetworkQuota;
  calls: NetworkRate;
  frames: NetworkRate;
  deliveries: NetworkRate;
}

const callBurstSeconds = 10;

export function shareLimits(limits: Limits): SharedLimits {
  return {
    channels: new NetworkQuota({ perNetwork: limits.channelsPerNetwork }),
    changes: new NetworkQuota({ perNetwork: limits.changesPerNetwork }),
    calls: new NetworkRate({ perNetwork: limits.callsPerNetwork }, callBurstSeconds),
    frames: new NetworkRate({ perNetwork: limits.framesPerNetwork }),
    deliveries: new NetworkRate({
      perNetwork: limits.deliveriesPerNetwork,
      inAll: limits.deliveriesPerSecond,
    }),
  };
}

/** What one delivery of a message counts as. */
export function deliveryCost(bytes: number): number {
  return 1 + Math.floor(bytes / (32 * 1024));
}

/** Counts events in windows of a fixed length. */
export class RateWindow {
  readonly #most: number;
  readonly #milliseconds: number;
  #startedAt = 0;
  #count = 0;

  constructor(most: number, milliseconds: number) {
    this.#most = most;
    this.#milliseconds = milliseconds;
  }

  /** Counts one event; false when the window holds too many already. */
  take(now = performance.now()): boolean {
    if (now - this.#startedAt >= this.#milliseconds || this.#startedAt === 0) {
      this.#startedAt = now;
      this.#count = 0;
    }
    this.#count += 1;
    return this.#count <= this.#most;
  }
}
