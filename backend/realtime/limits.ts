// How much one client, and all of them together, may ask of this process.

/** Bounds of the realtime service. */
export interface Limits {
  /** Bytes of one frame from a client. */
  frameBytes: number;
  /** Bytes of what one broadcast carries. */
  payloadBytes: number;
  /** Bytes of an HTTP request. */
  requestBytes: number;
  /** Sockets of this process. */
  connections: number;
  /** Sockets of one network address, so that no one takes all of them. */
  connectionsPerAddress: number;
  /** Topics one socket may be on. */
  channelsPerConnection: number;
  /** Joins one socket may try per second. */
  joinsPerSecond: number;
  /** Messages one socket may send to its channels per second; more costs it the channel. */
  messagesPerSecond: number;
  /** Frames of any kind one socket may send per second; more costs it the connection. */
  framesPerSecond: number;
  /** Presence messages per channel in 30 seconds. */
  presenceCalls: number;
  /** Bytes that one socket may be present with on all of its channels: they are kept as long as it is. */
  presenceBytes: number;
  /** Bytes that may wait for a slow reader before changes of tables wait for it; with twice as many it is let go. */
  bufferedBytes: number;
  /** Milliseconds such a reader has to make room before it is let go: for so long it can hold up the others. */
  patienceMilliseconds: number;
  /** Milliseconds without any traffic before a socket is closed. */
  idleMilliseconds: number;
}

/** The bounds a hosted project has, where it has them. */
export const defaultLimits: Limits = {
  frameBytes: 5_000_000,
  payloadBytes: 3_000_000,
  requestBytes: 5_000_000,
  connections: 10_000,
  connectionsPerAddress: 1_000,
  channelsPerConnection: 100,
  joinsPerSecond: 100,
  messagesPerSecond: 100,
  framesPerSecond: 1_000,
  presenceCalls: 5,
  presenceBytes: 256 * 1024,
  bufferedBytes: 8_000_000,
  patienceMilliseconds: 2_000,
  idleMilliseconds: 60_000,
};

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
