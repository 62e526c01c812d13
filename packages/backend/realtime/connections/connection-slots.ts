// Socket slots of this process. Each network has a limit; when all slots are taken, the networks with the most sockets lose
// one.
import { NetworkQuota } from '../../limits/network-limits.ts';
import type { Limits } from '../limits.ts';

interface Slot {
  close(): void;
  release(): void;
}

export class ConnectionSlots {
  readonly #quota: NetworkQuota;
  readonly #most: number;
  /** By the widest network of their clients; '' for clients without an IP address. */
  readonly #byNetwork = new Map<string, Set<Slot>>();
  #taken = 0;

  constructor({ connections, connectionsPerNetwork }: Pick<Limits, 'connections' | 'connectionsPerNetwork'>) {
    this.#quota = new NetworkQuota({ perNetwork: connectionsPerNetwork });
    this.#most = connections;
  }

  /**
   * Takes a slot for a client. When none is left, a client of the network with the most slots loses its own, unless this
   * client's network would have as many.
   * @param networks the client's, as `networksOf` lists them
   * @param close closes the client's socket
   * @returns a function that releases the slot; null when there is none
   */
  take(networks: readonly string[], close: () => void): (() => void) | null {
    const network = networks.at(-1) ?? '';
    const releaseQuota = this.#quota.take(networks);
    if (!releaseQuota) return null;
    if (this.#taken >= this.#most && !this.#closeOne(network)) {
      releaseQuota();
      return null;
    }
    const ofNetwork = this.#byNetwork.get(network) ?? new Set();
    this.#byNetwork.set(network, ofNetwork);
    const slot: Slot = {
      close,
      release: () => {
        if (!ofNetwork.delete(slot)) return;
        if (ofNetwork.size === 0) this.#byNetwork.delete(network);
        this.#taken -= 1;
        releaseQuota();
      },
    };
    ofNetwork.add(slot);
    this.#taken += 1;
    return slot.release;
  }

  #closeOne(network: string): boolean {
    let largest: ReadonlySet<Slot> = new Set();
    for (const slots of this.#byNetwork.values()) if (slots.size > largest.size) largest = slots;
    const [oldest] = largest;
    if (!oldest || largest.size <= (this.#byNetwork.get(network)?.size ?? 0) + 1) return false;
    oldest.release();
    oldest.close();
    return true;
  }
}
