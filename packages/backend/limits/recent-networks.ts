// Networks with recent requests: a client needs to rest only while others are active.
import { networksOf } from './network.ts';

/** A network counts as recent for at least this long after a request, and at most twice as long. */
const periodMs = 5_000;

/** A time slot. It stores one network, and whether there were others. */
interface Period {
  network: string | null;
  hasMore: boolean;
}

export class RecentNetworks {
  readonly #now: () => number;
  #current: Period = { network: null, hasMore: false };
  #previous: Period = this.#current;
  #endsAt: number;
  /** Caches the network of the last address, because a visitor sends many requests. */
  #lastAddress = '';

  /** @param now milliseconds of a monotonic clock */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.#endsAt = now() + periodMs;
  }

  /**
   * Notes a request. Cheap enough for pages that are answered from memory.
   * @param address the client's IP address
   */
  note(address: string): void {
    this.#turn();
    if (this.#current.hasMore || address === this.#lastAddress) return;
    this.#lastAddress = address;
    const network = networksOf(address).at(-1) ?? '';
    if (this.#current.network === null) this.#current.network = network;
    else if (this.#current.network !== network) this.#current.hasMore = true;
  }

  /** Whether no other network was noted within the last five to ten seconds. @param network the widest that `networksOf` lists */
  isAlone(network: string): boolean {
    this.#turn();
    return [this.#current, this.#previous].every(
      (period) => !period.hasMore && (period.network === null || period.network === network),
    );
  }

  #turn(): void {
    const late = this.#now() - this.#endsAt;
    if (late < 0) return;
    const none = { network: null, hasMore: false };
    this.#previous = late < periodMs ? this.#current : none;
    this.#current = { ...none };
    this.#lastAddress = '';
    this.#endsAt = this.#now() + periodMs;
  }
}
