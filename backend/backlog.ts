// Limits the unread bytes of all sockets of the process: each socket has its own limit, but many of them
// together would still fill the memory.
import { allowanceAt } from './network-limits.ts';

/** A socket with unread bytes. */
export interface Reader {
  /** The networks of its client, narrowest first. */
  readonly networks: readonly string[];
  readonly queuedBytes: number;
  /** Closes the socket immediately and drops its unread bytes. */
  terminate(): void;
}

/** Limits of unread bytes. */
export interface BacklogLimits {
  queuedBytes: number;
  queuedBytesPerNetwork: number;
}

/** A reader that has left bytes unread for this long counts as not reading. */
const staleMilliseconds = 1_000;
const recheckMilliseconds = 5;

export class Backlog {
  readonly #limits: BacklogLimits;
  /** Readers with unread bytes, and the time since which they have had some. */
  readonly #since = new Map<Reader, number>();
  /** Bytes sent since unread bytes were last counted. */
  #uncounted = 0;
  /** Whether the last count was above a limit. */
  #isOver = false;

  constructor(limits: BacklogLimits) {
    this.#limits = limits;
  }

  /**
   * Records that a reader has unread bytes. Above a limit, readers that do not read are terminated.
   * @param bytes number of sent bytes
   */
  note(reader: Reader, bytes: number, now = performance.now()): void {
    const wasEmpty = reader.queuedBytes <= bytes;
    if (wasEmpty || !this.#since.has(reader)) this.#since.set(reader, now);
    this.#uncounted += bytes;
    if (this.#isCountDue) this.enforce(now);
  }

  /** Terminates readers that do not read, above a limit. */
  enforce(now = performance.now()): void {
    this.#total();
    const isStale = (reader: Reader) => (this.#since.get(reader) ?? now) < now - staleMilliseconds;
    if (this.#isOver) this.#terminateWorst(isStale);
    this.#terminateWorstOfNetworks(isStale);
  }

  forget(reader: Reader): void {
    this.#since.delete(reader);
  }

  /**
   * Null below the limits. Otherwise resolves once below them: readers get a second to read, then those with the most
   * unread bytes are terminated.
   */
  drained(): Promise<void> | null {
    if (!this.#isOver && !this.#isCountDue) return null;
    this.enforce();
    return this.#isOver ? this.#drain() : null;
  }

  /** Counting visits all readers with unread bytes, so it is not done for every message. */
  get #isCountDue(): boolean {
    return this.#uncounted > this.#limits.queuedBytes / 16;
  }

  async #drain(): Promise<void> {
    const deadline = performance.now() + staleMilliseconds;
    while (this.#total() > this.#limits.queuedBytes) {
      if (performance.now() > deadline) return this.#terminateWorst(() => true);
      await new Promise((done) => setTimeout(done, recheckMilliseconds));
    }
  }

  #total(): number {
    this.#uncounted = 0;
    let total = 0;
    for (const reader of this.#since.keys()) {
      if (reader.queuedBytes === 0) this.#since.delete(reader);
      else total += reader.queuedBytes;
    }
    this.#isOver = total > this.#limits.queuedBytes;
    return total;
  }

  /** The largest readers count as terminated even if they are not stale yet, so that no small stale reader is terminated in their place. */
  #terminateWorst(isStale: (reader: Reader) => boolean) {
    let over = this.#total() - this.#limits.queuedBytes;
    for (const reader of this.#worstFirst()) {
      if (over <= 0) break;
      over -= reader.queuedBytes;
      if (isStale(reader)) this.#terminate(reader);
    }
    this.#isOver = this.#total() > this.#limits.queuedBytes;
  }

  #terminateWorstOfNetworks(isStale: (reader: Reader) => boolean) {
    const byNetwork = new Map<string, number>();
    for (const { networks, queuedBytes } of this.#since.keys()) {
      for (const network of networks) byNetwork.set(network, (byNetwork.get(network) ?? 0) + queuedBytes);
    }
    for (const reader of this.#worstFirst()) {
      const { networks, queuedBytes } = reader;
      const isOver = networks.some(
        (network, level) =>
          (byNetwork.get(network) ?? 0) > this.#limits.queuedBytesPerNetwork * allowanceAt(level, networks),
      );
      if (!isOver) continue;
      for (const network of networks) byNetwork.set(network, (byNetwork.get(network) ?? 0) - queuedBytes);
      if (isStale(reader)) this.#terminate(reader);
    }
  }

  #worstFirst(): Reader[] {
    return [...this.#since.keys()].sort((a, b) => b.queuedBytes - a.queuedBytes);
  }

  #terminate(reader: Reader) {
    this.#since.delete(reader);
    reader.terminate();
  }
}
