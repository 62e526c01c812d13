// The memory of answers and messages that their clients have not read yet, of all sockets of the process together: each socket has its
// own limit, but many of them would still fill the memory (packages/backend/decisions/unread-answers.md).
import { QueueFull } from './fair-queue.ts';
import { allowanceAt } from './network-limits.ts';

/** A socket with unread bytes. */
export interface Reader {
  /** The networks of its client, narrowest first. */
  readonly networks: readonly string[];
  /** Bytes that this process holds for it. */
  readonly queuedBytes: number;
  /** Closes the socket immediately and drops its unread bytes. */
  terminate(): void;
}

/** Limits of unread bytes. */
export interface BacklogLimits {
  /** Maximum unread bytes of all clients. */
  queuedBytes: number;
  /** Unread bytes per network, above which those of its clients that do not read are disconnected. */
  queuedBytesPerNetwork: number;
}

/** Together with bytes of disconnected clients that V8 has not collected yet, the process holds 64 MB at most. */
const defaultBacklogLimits: BacklogLimits = {
  queuedBytes: 48_000_000,
  queuedBytesPerNetwork: 16_000_000,
};

/** A reader that has left bytes unread for this long counts as not reading. */
const staleMilliseconds = 1_000;
const recheckMilliseconds = 5;
/** Part of the limit above which clients that do not read are disconnected. Above the whole limit, reading ones are, too. */
const tolerated = 0.75;
/** Part of the limit after which readers are counted again: counting visits all of them. */
const countedParts = 1 / 16;
/** Bytes that an answer takes until it is known. */
const reservedBytes = 2_000_000;

/** Bytes that are held for a client. */
type Holding = Pick<Reader, 'networks' | 'queuedBytes'>;

export class Backlog {
  readonly #limits: BacklogLimits;
  /** Readers with unread bytes, and the time since which they have had some; the longest unread first. */
  readonly #since = new Map<Reader, number>();
  /** Answers that are being made. */
  readonly #reserved = new Set<Holding>();
  // Upper bounds, because clients read in the meantime: all readers are counted again only where a limit seems to be reached.
  #total = 0;
  #byNetwork = new Map<string, number>();
  /** Bytes sent since the readers were last counted. */
  #uncounted = 0;

  constructor(limits: BacklogLimits = defaultBacklogLimits) {
    this.#limits = limits;
  }

  /** Upper bound of the bytes that are held for all clients. */
  get heldBytes(): number {
    return this.#total;
  }

  /**
   * Records that a reader has unread bytes. Above a limit, readers are terminated.
   * @param bytes number of sent bytes
   */
  note(reader: Reader, bytes: number, now = performance.now()): void {
    const wasEmpty = reader.queuedBytes <= bytes;
    if (wasEmpty || !this.#since.has(reader)) {
      this.#since.delete(reader);
      this.#since.set(reader, now);
    }
    this.#add(reader.networks, bytes);
    this.#uncounted += bytes;
    const { queuedBytes } = this.#limits;
    if (this.#uncounted > countedParts * queuedBytes || this.#total > queuedBytes) this.enforce(now);
  }

  /** Terminates readers that do not read above three quarters of the limit or above their network's, and any above the limit. */
  enforce(now = performance.now()): void {
    this.#count();
    const isStale = (reader: Reader) => (this.#since.get(reader) ?? now) < now - staleMilliseconds;
    this.#terminateAbove(tolerated * this.#limits.queuedBytes, isStale);
    this.#terminateAbove(this.#limits.queuedBytes, () => true);
    this.#terminateOfNetworks(isStale);
  }

  forget(reader: Reader): void {
    this.#since.delete(reader);
  }

  /**
   * Reserves memory for an answer before work on it begins. Clients of the heaviest network that have not read theirs make room for it.
   * @param networks the client's, as `networksOf` lists them; empty for clients without a limit per network
   * @returns a function that returns the memory, when the answer is with its reader
   * @throws QueueFull when the client's network, or all answers that are being made, leave no room
   */
  reserve(networks: readonly string[], now = performance.now()): () => void {
    const holding = { networks, queuedBytes: reservedBytes };
    this.#reserved.add(holding);
    this.#add(networks, reservedBytes);
    const release = () => {
      if (this.#reserved.delete(holding)) this.#add(networks, -reservedBytes);
    };
    const refuse = (isOwn: boolean) => {
      release();
      throw new QueueFull(isOwn);
    };
    if (this.#overfull(networks)) this.enforce(now);
    if (this.#overfull(networks)) refuse(true);
    const { queuedBytes: most } = this.#limits;
    if (this.#total > most) {
      this.#count();
      this.#terminateAbove(most, () => true);
    }
    if (this.#total > most) refuse(false);
    return release;
  }

  /**
   * Null below three quarters of the limit. Otherwise resolves once below them: readers get a second to read, then some are terminated.
   */
  drained(): Promise<void> | null {
    const most = tolerated * this.#limits.queuedBytes;
    if (this.#total <= most) return null;
    this.enforce();
    return this.#total > most ? this.#drain(most) : null;
  }

  async #drain(most: number): Promise<void> {
    const deadline = performance.now() + staleMilliseconds;
    for (this.#count(); this.#total > most; this.#count()) {
      if (performance.now() > deadline) return this.#terminateAbove(most, () => true);
      await new Promise((done) => setTimeout(done, recheckMilliseconds));
    }
  }

  #add(networks: readonly string[], bytes: number): void {
    this.#total += bytes;
    for (const network of networks) this.#byNetwork.set(network, (this.#byNetwork.get(network) ?? 0) + bytes);
  }

  #count(): void {
    this.#total = 0;
    this.#uncounted = 0;
    this.#byNetwork = new Map();
    for (const reader of this.#since.keys()) {
      if (reader.queuedBytes === 0) this.#since.delete(reader);
      else this.#add(reader.networks, reader.queuedBytes);
    }
    for (const { networks, queuedBytes } of this.#reserved) this.#add(networks, queuedBytes);
  }

  /** Whether one of a client's networks holds more than its allowance. */
  #overfull(networks: readonly string[]): boolean {
    return networks.some(
      (network, level) =>
        (this.#byNetwork.get(network) ?? 0) >
        this.#limits.queuedBytesPerNetwork * allowanceAt(level, networks),
    );
  }

  /**
   * Terminates readers of the network with the most unread bytes, again and again: in it the largest answer, of equal ones the oldest.
   * A reader that may not be terminated counts as terminated, so that no smaller one is terminated in its place.
   */
  #terminateAbove(most: number, mayTerminate: (reader: Reader) => boolean): void {
    let over = this.#total - most;
    if (over <= 0) return;
    const groups = new Map<string, { bytes: number; readers: Reader[] }>();
    for (const reader of this.#worstFirst()) {
      const widest = reader.networks.at(-1) ?? '';
      const group = groups.get(widest) ?? { bytes: 0, readers: [] };
      group.bytes += reader.queuedBytes;
      group.readers.push(reader);
      groups.set(widest, group);
    }
    while (over > 0) {
      const [heaviest] = [...groups.values()].sort((a, b) => b.bytes - a.bytes);
      const worst = heaviest?.readers.shift();
      if (!heaviest || !worst) break;
      heaviest.bytes -= worst.queuedBytes;
      over -= worst.queuedBytes;
      if (mayTerminate(worst)) this.#terminate(worst);
    }
    this.#count();
  }

  #terminateOfNetworks(isStale: (reader: Reader) => boolean): void {
    const isAnyOver = [...this.#since.keys()].some(({ networks }) => this.#overfull(networks));
    if (!isAnyOver) return;
    for (const reader of this.#worstFirst()) {
      const { networks, queuedBytes } = reader;
      if (!this.#overfull(networks)) continue;
      this.#add(networks, -queuedBytes);
      if (isStale(reader)) this.#terminate(reader);
    }
    this.#count();
  }

  #worstFirst(): Reader[] {
    return [...this.#since.keys()].sort((a, b) => b.queuedBytes - a.queuedBytes);
  }

  #terminate(reader: Reader) {
    this.#since.delete(reader);
    reader.terminate();
  }
}
