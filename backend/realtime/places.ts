// Socket places of this process. Each network has a limit; when all places are taken, the networks with the most sockets lose
// one.
import { NetworkQuota } from '../network-limits.ts';
import type { Limits } from './limits.ts';

interface Place {
  close(): void;
  giveBack(): void;
}

export class Places {
  readonly #quota: NetworkQuota;
  readonly #most: number;
  /** By the widest network of their clients; '' for clients without an IP address. */
  readonly #byNetwork = new Map<string, Set<Place>>();
  #taken = 0;

  constructor({ connections, connectionsPerNetwork }: Pick<Limits, 'connections' | 'connectionsPerNetwork'>) {
    this.#quota = new NetworkQuota({ perNetwork: connectionsPerNetwork });
    this.#most = connections;
  }

  /**
   * Takes a place for a client. When none is left, a client of the network with the most places loses its own, unless this
   * client's network would have as many.
   * @param networks the client's, as `networksOf` lists them
   * @param close closes the client's socket
   * @returns a function that releases the place; null when there is none
   */
  take(networks: readonly string[], close: () => void): (() => void) | null {
    const network = networks.at(-1) ?? '';
    const giveBackQuota = this.#quota.take(networks);
    if (!giveBackQuota) return null;
    if (this.#taken >= this.#most && !this.#makeRoom(network)) {
      giveBackQuota();
      return null;
    }
    const ofNetwork = this.#byNetwork.get(network) ?? new Set();
    this.#byNetwork.set(network, ofNetwork);
    const place: Place = {
      close,
      giveBack: () => {
        if (!ofNetwork.delete(place)) return;
        if (ofNetwork.size === 0) this.#byNetwork.delete(network);
        this.#taken -= 1;
        giveBackQuota();
      },
    };
    ofNetwork.add(place);
    this.#taken += 1;
    return place.giveBack;
  }

  #makeRoom(network: string): boolean {
    let largest: ReadonlySet<Place> = new Set();
    for (const places of this.#byNetwork.values()) if (places.size > largest.size) largest = places;
    const [oldest] = largest;
    if (!oldest || largest.size <= (this.#byNetwork.get(network)?.size ?? 0) + 1) return false;
    oldest.giveBack();
    oldest.close();
    return true;
  }
}
