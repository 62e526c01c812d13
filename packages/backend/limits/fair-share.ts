// One client's share of the machine (packages/backend/decisions/fair-share.md).

import type { Caller } from '../caller.ts';
import type { Database } from '../database/database.ts';
import { Backlog } from './backlog.ts';
import { type Client, createFairQueue, type FairQueue } from './fair-queue.ts';
import { networksOf } from './network.ts';
import { RecentNetworks } from './recent-networks.ts';

/** The fair queues of a process: one per scarce resource. */
export interface FairShare {
  /** The beginning of each request that is not answered from memory: parsing, and the first checks. */
  entry: FairQueue;
  /** The database and this process's one thread: queries, page rendering, password checks. */
  work: FairQueue;
  /** Requests that may wait for a third party, such as functions. */
  outbound: FairQueue;
  /** Requests whose sender a function knows by its URL, as a payment service's callbacks. Visitors have no place in it. */
  partners: FairQueue;
  /** Runs work that follows the answer to such a request, one after another and while few of them wait. */
  afterPartners(work: () => Promise<void>): Promise<void>;
  /** Requests that send a message to a given address: each is heavy, and none is urgent. */
  messages: FairQueue;
  /** The process that decodes and encodes images, one at a time (storage/image-process.ts). */
  images: FairQueue;
  /** Queries of joins of realtime channels: a few at a time, because pages use the database too. */
  joins: FairQueue;
  /** Cached pages, files and plain reads, which need not wait in `entry`, beyond those that `startsAtOnce` allows. */
  direct: FairQueue;
  /**
   * Whether such a request starts without queueing: a few per turn of the event loop, because a connection that has become ready in the
   * meantime waits for all of them, and any number for a client that is alone. Call it once per request.
   */
  startsAtOnce(address: string): boolean;
  /** Memory of answers and messages that are not read yet. */
  unread: Backlog;
  /** Networks with recent requests of any kind, which take precedence over a flood. */
  recent: Pick<RecentNetworks, 'note'>;
  /** Notes that the server has accepted a connection: further ones take precedence over jobs. */
  noteConnection(): void;
}

/** Starts without queueing in one turn of the event loop, before the next connection is accepted and the next job starts. */
const startsAtOncePerTurn = 32;
/** Starts of those that queue. */
const directStartsPerTurn = 8;

/**
 * Creates the queues.
 * @param database the kind of database: the embedded one answers one query at a time and blocks this process in the meantime
 */
export function createFairShare(database: Database['kind']): FairShare {
  const isEmbedded = database === 'pglite';
  const recent = new RecentNetworks();
  let connections = 0;
  const acceptedConnections = () => connections;
  const entry = createFairQueue({
    acceptedConnections,
    concurrency: 4,
    maxRunningPerShare: 4,
    startsPerTurn: 4,
    maxQueued: 2000,
    maxQueuedPerShare: 400,
  });
  // Visitors' networks with more jobs that wait are floods: a browser sends a few at a time.
  const resting = {
    restAbove: { visitors: 4 },
    queuedBefore: (network: string) => entry.queuedOf('visitors', network),
    isAlone: (network: string) => recent.isAlone(network),
  };
  // A connection waits for one answer at a time, so that the limits of connections are those of this queue, too.
  const direct = createFairQueue({
    concurrency: directStartsPerTurn,
    maxRunningPerShare: directStartsPerTurn,
    startsPerTurn: directStartsPerTurn,
    maxQueued: Number.POSITIVE_INFINITY,
    maxQueuedPerShare: Number.POSITIVE_INFINITY,
  });
  const known = createFairQueue({
    concurrency: isEmbedded ? 2 : 8,
    maxRunningPerShare: Number.POSITIVE_INFINITY,
    startsPerTurn: 4,
    maxQueued: 5000,
    maxQueuedPerShare: Number.POSITIVE_INFINITY,
  });
  const aftermath = createFairQueue({
    concurrency: 1,
    maxRunningPerShare: 1,
    startsPerTurn: 1,
    maxQueued: 5000,
    maxQueuedPerShare: 5000,
  });
  let starts = 0;
  const countAgain = () => {
    starts = 0;
  };
  return {
    recent,
    entry,
    direct,
    startsAtOnce(address) {
      starts += 1;
      // Not in each turn, most of which have few starts: that takes as long as a quarter of a cached page.
      if (starts === startsAtOncePerTurn / 2) setImmediate(countAgain);
      if (starts <= startsAtOncePerTurn && direct.queued === 0) return true;
      const [group, widest = ''] = visitorAt(address);
      if (starts <= startsAtOncePerTurn) return direct.queuedOf(group, widest) === 0;
      return recent.isAlone(widest);
    },
    unread: new Backlog(),
    noteConnection() {
      connections += 1;
    },
    work: createFairQueue({
      acceptedConnections,
      concurrency: isEmbedded ? 4 : 16,
      maxRunningPerShare: isEmbedded ? 2 : 4,
      startsPerTurn: isEmbedded ? 4 : 8,
      maxQueued: 1000,
      maxQueuedPerShare: 200,
      ...resting,
    }),
    outbound: createFairQueue({
      concurrency: 32,
      maxRunningPerShare: 4,
      startsPerTurn: 1,
      maxQueued: 500,
      maxQueuedPerShare: 50,
      ...resting,
      // A flood of calls that fail immediately rests most of the time; calls that wait for a third party rest hardly at all.
      maxRestMs: 50,
    }),
    partners: known,
    afterPartners: (work) =>
      aftermath.run(partners, async () => {
        await known.idle(100);
        await work();
      }),
    // All networks together get only a small part of the machine.
    messages: createFairQueue({
      concurrency: 2,
      maxRunningPerShare: 1,
      startsPerTurn: 1,
      startIntervalMs: 50,
      maxQueued: 200,
      maxQueuedPerShare: 20,
    }),
    joins: createFairQueue({
      acceptedConnections,
      concurrency: 3,
      maxRunningPerShare: 2,
      startsPerTurn: 1,
      // 200 per second: subscribers that are closed for too many changes join again at once.
      startIntervalMs: 5,
      maxQueued: 20_000,
      maxQueuedPerShare: 500,
    }),
    images: createFairQueue({
      concurrency: 1,
      maxRunningPerShare: 1,
      startsPerTurn: 1,
      maxQueued: 64,
      maxQueuedPerShare: 24,
      ...resting,
    }),
  };
}

/**
 * The shares a caller's jobs belong to.
 * @returns one share for the secret key, one per signed-in user, else the caller's networks
 */
export function clientOf({ claims, address }: Pick<Caller, 'claims' | 'address'>): Client {
  if (claims.role === 'service_role') return ['secret key'];
  if (claims.role !== 'anon') return ['signed in', claims.sub ?? ''];
  return visitorAt(address ?? '');
}

/** The one share of all known senders. */
export const partners: Client = ['partners'];

/** The shares of a visitor's jobs: networks of the IP address, widest first. */
export function visitorAt(address: string): Client {
  return visitorOf(networksOf(address));
}

/** @param networks as `networksOf` lists them, the narrowest first */
export function visitorOf(networks: readonly string[]): Client {
  return ['visitors', ...[...networks].reverse()];
}
