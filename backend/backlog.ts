// The bytes that wait for sockets to be read, over all sockets of the process: each has a bound of its own, but many of them
// together would still fill the memory.
import { allowanceAt } from './network-limits.ts';

/** A socket as far as its unread bytes go. */
export interface Reader {
  /** The networks of its client, narrowest first. */
  readonly networks: readonly string[];
  readonly queuedBytes: number;
  /** Closes the socket at once and forgets what waits for it. */
  terminate(): void;
}

/** Bounds of the bytes that wait. */
export interface BacklogLimits {
  queuedBytes: number;
  queuedBytesPerNetwork: number;
}

/** A reader that left bytes unread for so long does not read. */
const staleMilliseconds = 1_000;
const recheckMilliseconds = 5;

export class Backlog {
  readonly #limits: BacklogLimits;
  /** Readers with bytes that wait, and since when there have been some without a break. */
  readonly #since = new Map<Reader, number>();
  /** Sent since the waiting bytes were last counted. */
  #uncounted = 0;
  /** Whether it was too much when they were. */
  #isOver = false;

  constructor(limits: BacklogLimits) {
    this.#limits = limits;
  }

  /**
   * Notes that a reader did not take at once what was sent to it. Where too much waits, readers that do not read are terminated.
   * @param bytes what was sent
   */
  note(reader: Reader, bytes: number, now = performance.now()): void {
    const wasEmpty = reader.queuedBytes <= bytes;
    if (wasEmpty || !this.#since.has(reader)) this.#since.set(reader, now);
    this.#uncounted += bytes;
    if (this.#isCountDue) this.enforce(now);
  }

  /** Terminates readers that do not read, where too much waits. */
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
   * Null while there is room for more. Otherwise resolves once there is: readers get a second to read, then those with the most
   * unread bytes are terminated.
   */
  room(): Promise<void> | null {
    if (!this.#isOver && !this.#isCountDue) return null;
    this.enforce();
    return this.#isOver ? this.#makeRoom() : null;
  }

  /** Counting goes through all readers that are behind: not for every message. */
  get #isCountDue(): boolean {
    return this.#uncounted > this.#limits.queuedBytes / 16;
  }

  async #makeRoom(): Promise<void> {
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

  /** The largest that are not stale yet are counted as if terminated: a small one that is stale is not to go in their place. */
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
