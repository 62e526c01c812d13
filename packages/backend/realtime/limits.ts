// Limits of the realtime service per client, per network, and for this process.
import { NetworkQuota, NetworkRate } from '../limits/network-limits.ts';

/**
 * Limits of the realtime service. "Per network" is the allowance of an IPv4 address or an IPv6 /64; wider networks have a
 * multiple of it (`packages/backend/limits/network-limits.ts`). Clients without a known IP address and the secret key have no per-network
 * limits.
 */
export interface Limits {
  /** Maximum bytes of a frame from a client. */
  frameBytes: number;
  /** Maximum bytes of a join: its channel retains the payload. */
  joinBytes: number;
  /** Maximum payload bytes of a broadcast. */
  payloadBytes: number;
  /** Maximum bytes of an HTTP request. */
  requestBytes: number;
  /** Maximum messages per HTTP request. */
  messagesPerRequest: number;

  /** Maximum sockets of this process. When all are taken, the networks with the most sockets lose one to a newcomer. */
  connections: number;
  /** Maximum sockets per network. */
  connectionsPerNetwork: number;
  /** Maximum topics per socket. */
  channelsPerConnection: number;
  /** Maximum channels per network; each KiB of a join counts as one more. */
  channelsPerNetwork: number;
  /** Maximum subscriptions to table changes per network; one with a filter counts as ten. */
  changesPerNetwork: number;

  /** Joins per socket and second. */
  joinsPerSecond: number;
  /**
   * Joins, new tokens and HTTP requests per network and second, with a burst of ten seconds. Each query and each 16 KiB of an
   * HTTP request counts as one more.
   */
  callsPerNetwork: number;
  /** Handshakes per network and second, with a burst of twenty seconds. */
  handshakesPerNetwork: number;
  /** Messages per socket and second; more close the channel. */
  messagesPerSecond: number;
  /** Frames of any kind per socket and second; more destroy the connection before they are parsed, and so do more bytes. */
  framesPerSecond: number;
  /** Bytes per socket and second, at least `frameBytes`. */
  bytesPerSecond: number;
  /** Frames per network and second; each 4 KiB counts as one more. More destroy the connection, apart from `reservedFrames`. */
  framesPerNetwork: number;
  /** The same for all networks together. */
  framesInAll: number;
  /** Frames that a socket may send in thirty seconds although others have used up the allowance of its network or of all. */
  reservedFrames: number;
  /**
   * Deliveries per network and second: messages times their receivers in this process. Each 32 KiB of a message counts as one
   * more. Messages from the database are not counted here.
   */
  deliveriesPerNetwork: number;
  /** Deliveries per second for all clients together. */
  deliveriesPerSecond: number;
  /**
   * Table changes that visitors (role `anon`) receive, per network and second, with a burst of two seconds. Each 32 KiB of a
   * change counts as one more. More close the channel.
   */
  visitorChangesPerNetwork: number;
  /** Table changes that all visitors together receive per second. */
  visitorChangesPerSecond: number;

  /** Presence messages per channel in 30 seconds. */
  presenceCalls: number;
  /** Maximum presence bytes per socket, over all of its channels: they are retained as long as the socket. */
  presenceBytes: number;
  /** Maximum presence bytes per topic: each join receives all of them. */
  presenceBytesPerTopic: number;
  /** Milliseconds after which other processes drop the presences of a process that was killed. */
  presenceLeaseMs: number;

  /**
   * Unread bytes of a slow reader from which table changes wait for it; at twice as many it is disconnected. At least half of
   * `payloadBytes`, or a large message would disconnect its reader.
   */
  bufferedBytes: number;
  /** Milliseconds that other clients wait for a slow reader before it is disconnected. */
  slowReaderTimeoutMs: number;
  /** The same for visitors (role `anon`), who may open many sockets and read from none. */
  slowVisitorTimeoutMs: number;
  /** Milliseconds without any traffic before a socket is closed. */
  idleMilliseconds: number;
}

/** A hosted project's limits, where it has them. */
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
  handshakesPerNetwork: 20,
  messagesPerSecond: 100,
  framesPerSecond: 1_000,
  bytesPerSecond: 25_000_000,
  framesPerNetwork: 5_000,
  framesInAll: 50_000,
  reservedFrames: 10,
  deliveriesPerNetwork: 10_000,
  deliveriesPerSecond: 50_000,
  visitorChangesPerNetwork: 10_000,
  visitorChangesPerSecond: 50_000,
  presenceCalls: 5,
  presenceBytes: 256 * 1024,
  presenceBytesPerTopic: 512 * 1024,
  presenceLeaseMs: 30_000,
  bufferedBytes: 2_000_000,
  slowReaderTimeoutMs: 2_000,
  slowVisitorTimeoutMs: 100,
  idleMilliseconds: 60_000,
};

/** Counters shared by the clients of this process. */
export interface SharedLimits {
  channels: NetworkQuota;
  changes: NetworkQuota;
  calls: NetworkRate;
  handshakes: NetworkRate;
  frames: NetworkRate;
  deliveries: NetworkRate;
  visitorChanges: NetworkRate;
}

const burstSeconds = 10;
const changesBurstSeconds = 2;
/** After a restart of the process, all clients of a network connect at once. */
const handshakesBurstSeconds = 20;
const reservedMilliseconds = 30_000;

/** Creates the counters that the clients of this process share. */
export function shareLimits(limits: Limits): SharedLimits {
  return {
    channels: new NetworkQuota({ perNetwork: limits.channelsPerNetwork }),
    changes: new NetworkQuota({ perNetwork: limits.changesPerNetwork }),
    calls: new NetworkRate({ perNetwork: limits.callsPerNetwork }, burstSeconds),
    handshakes: new NetworkRate({ perNetwork: limits.handshakesPerNetwork }, handshakesBurstSeconds),
    frames: new NetworkRate({ perNetwork: limits.framesPerNetwork, inAll: limits.framesInAll }),
    deliveries: new NetworkRate({
      perNetwork: limits.deliveriesPerNetwork,
      inAll: limits.deliveriesPerSecond,
    }),
    visitorChanges: new NetworkRate(
      { perNetwork: limits.visitorChangesPerNetwork, inAll: limits.visitorChangesPerSecond },
      changesBurstSeconds,
    ),
  };
}

/** Cost of one delivery of a message. */
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

  /** Counts events; false above the limit. */
  take(amount = 1, now = performance.now()): boolean {
    if (now - this.#startedAt >= this.#milliseconds || this.#startedAt === 0) {
      this.#startedAt = now;
      this.#count = 0;
    }
    this.#count += amount;
    return this.#count <= this.#most;
  }
}

const bytesPerFrame = 4 * 1024;

/** Counts what arrives on one socket, before it is parsed. */
export class FrameAllowance {
  readonly #frames: RateWindow;
  readonly #bytes: RateWindow;
  readonly #reserved: RateWindow;
  readonly #shared: NetworkRate;
  readonly #networks: readonly string[];

  /** @param networks the client's, as `networksOf` lists them; without any, only the limits of a socket apply */
  constructor(limits: Limits, shared: Pick<SharedLimits, 'frames'>, networks: readonly string[]) {
    this.#frames = new RateWindow(limits.framesPerSecond, 1000);
    this.#bytes = new RateWindow(limits.bytesPerSecond, 1000);
    this.#reserved = new RateWindow(limits.reservedFrames, reservedMilliseconds);
    this.#shared = shared.frames;
    this.#networks = networks;
  }

  /** Counts frames and their bytes; false above a limit. */
  take(frames: number, bytes: number, now = performance.now()): boolean {
    const isWithinSocket = this.#frames.take(frames, now) && this.#bytes.take(bytes, now);
    if (!isWithinSocket || this.#networks.length === 0) return isWithinSocket;
    const cost = frames + bytes / bytesPerFrame;
    return this.#shared.take(this.#networks, cost, now) || this.#reserved.take(cost, now);
  }
}
