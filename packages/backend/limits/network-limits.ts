// Limits per network, in the memory of one process: resources held at a time, and actions per second
// (packages/backend/decisions/network-limits.md). Limits that must hold for all processes together are in the database.

/** Allowance of one network; wider networks of an address get a multiple of it. */
export interface NetworkAllowance {
  /** Allowance of an IPv4 address or an IPv6 /64. */
  perNetwork: number;
  /** Allowance of all clients together, those without an address included. Default: unlimited. */
  inAll?: number;
}

/**
 * How many times the allowance of the narrowest network a network has: the same multiples as in the database.
 * @param level place of the network in `networks`
 * @param networks as `networksOf` lists them
 */
export function allowanceAt(level: number, networks: readonly string[]): number {
  if (level === 0) return 1;
  return level === networks.length - 1 ? 8 : 2;
}

function allowancesOf(
  networks: readonly string[],
  { perNetwork, inAll }: NetworkAllowance,
): [string, number][] {
  return [
    ...networks.map((network, level): [string, number] => [
      network,
      perNetwork * allowanceAt(level, networks),
    ]),
    ...(inAll === undefined ? [] : ([['', inAll]] satisfies [string, number][])),
  ];
}

/** Counts held resources, such as connections. */
export class NetworkQuota {
  readonly #allowance: NetworkAllowance;
  readonly #held = new Map<string, number>();

  constructor(allowance: NetworkAllowance) {
    this.#allowance = allowance;
  }

  /**
   * Reserves an amount for a client, or nothing where one of its networks would exceed its limit.
   * @param networks the client's, as `networksOf` lists them; empty without an address
   * @returns a function that returns the amount, once; null when it was refused
   */
  take(networks: readonly string[], amount = 1): (() => void) | null {
    if (this.fullOf(networks, amount) !== null) return null;
    const allowances = allowancesOf(networks, this.#allowance);
    const heldBy = (network: string) => this.#held.get(network) ?? 0;
    for (const [network] of allowances) this.#held.set(network, heldBy(network) + amount);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      for (const [network] of allowances) {
        const left = heldBy(network) - amount;
        if (left > 0) this.#held.set(network, left);
        else this.#held.delete(network);
      }
    };
  }

  /**
   * The narrowest of a client's networks that has no place for an amount.
   * @returns '' where all clients together hold too much; null where there is a place
   */
  fullOf(networks: readonly string[], amount = 1): string | null {
    const full = allowancesOf(networks, this.#allowance).find(
      ([network, most]) => (this.#held.get(network) ?? 0) + amount > most,
    );
    return full?.[0] ?? null;
  }
}

interface Bucket {
  tokens: number;
  filledAt: number;
  capacity: number;
}

const fewestBucketsToSweep = 10_000;

/** Token buckets per network. */
export class NetworkRate {
  readonly #allowance: NetworkAllowance;
  readonly #burstSeconds: number;
  readonly #buckets = new Map<string, Bucket>();
  #sweepAt = fewestBucketsToSweep;

  /**
   * @param perSecond allowances per second
   * @param burstSeconds seconds whose allowance may be used immediately
   */
  constructor(perSecond: NetworkAllowance, burstSeconds = 1) {
    this.#allowance = perSecond;
    this.#burstSeconds = burstSeconds;
  }

  /**
   * Counts a client's action.
   * @param networks the client's, as `networksOf` lists them; empty without an address
   * @param cost cost of the action; a cost above the burst is never allowed
   * @param now milliseconds of a monotonic clock
   * @returns false, and counts nothing, when one of its networks has not so much left
   */
  take(networks: readonly string[], cost = 1, now = performance.now()): boolean {
    const filled = allowancesOf(networks, this.#allowance).map(
      ([network, perSecond]) => [network, this.#filled(network, perSecond, now)] as const,
    );
    if (filled.some(([, { tokens }]) => tokens < cost)) return false;
    for (const [network, bucket] of filled) {
      this.#buckets.set(network, { ...bucket, tokens: bucket.tokens - cost });
    }
    if (this.#buckets.size > this.#sweepAt) this.#sweep(now);
    return true;
  }

  /** Networks in memory. */
  get size(): number {
    return this.#buckets.size;
  }

  #filled(network: string, perSecond: number, now: number): Bucket {
    const capacity = perSecond * this.#burstSeconds;
    const bucket = this.#buckets.get(network);
    const tokens = bucket ? bucket.tokens + ((now - bucket.filledAt) / 1000) * perSecond : capacity;
    return { tokens: Math.min(capacity, tokens), filledAt: now, capacity };
  }

  /** Deletes full buckets, which are the same as none. */
  #sweep(now: number) {
    for (const [network, { filledAt, tokens, capacity }] of this.#buckets) {
      const refilled = tokens + (((now - filledAt) / 1000) * capacity) / this.#burstSeconds;
      if (refilled >= capacity) this.#buckets.delete(network);
    }
    this.#sweepAt = Math.max(fewestBucketsToSweep, 2 * this.#buckets.size);
  }
}
