// Fair queue: a few jobs run concurrently, the others wait per share. A client with many heavy jobs delays only itself. While no job
// waits, a new one starts at once, and only counters change.

/**
 * The owner of a job as names of nested shares, widest first, such as `['visitors', '192.0.2.0/24', '192.0.2.1']`. Shares within a
 * share are served in turn.
 */
export type Client = readonly [group: string, ...shares: string[]];

export interface FairQueueOptions {
  /** Maximum concurrent jobs. A group that has all other places does not get the last one. */
  concurrency: number;
  /** Maximum concurrent jobs of one share within a group, such as a network. */
  maxRunningPerShare: number;
  /**
   * Maximum jobs that start in one iteration of the event loop: jobs may block it, and requests without a queue are answered in
   * between.
   */
  startsPerTurn: number;
  /** Minimum milliseconds between two job starts, with one start per iteration. Default: 0. */
  startIntervalMs?: number;
  /**
   * The number of connections that the server has accepted. Node.js accepts one per iteration of the event loop (libuv 1.45 and
   * newer), so jobs wait while it grows: in a burst of connections, each would otherwise wait for a job. Jobs wait at most 20 ms, and
   * then run for as long.
   */
  acceptedConnections?: () => number;
  /** Maximum waiting jobs. Above it, the newest job of the client with the most jobs is rejected. */
  maxQueued: number;
  /** Maximum waiting jobs of one share within a group. */
  maxQueuedPerShare: number;
  /**
   * By group: waiting jobs of one share above which it rests after each job, for twice the job's duration. A flood thus uses a third
   * of the machine at most, even while no other share waits. Default: no share rests.
   */
  restAbove?: Readonly<Record<string, number>>;
  /**
   * Waiting jobs of a share in an earlier queue, which passes on only as many as can be processed. They count for `restAbove`, too.
   * Default: 0.
   */
  queuedBefore?: (share: string) => number;
  /** Whether a share has no competitors and need not rest. Default: no share is alone. */
  isAlone?: (share: string) => boolean;
  /** Maximum milliseconds of a rest, for queues whose long jobs mostly wait for third parties. Default: unlimited. */
  maxRestMs?: number;
  /** Milliseconds of a monotonic clock. */
  now?: () => number;
}

export interface JobOptions {
  /** Cost of the job relative to others: shares get equal cost, not equal numbers of jobs. Default: 1. */
  cost?: number;
  /** Returns a signal that is aborted when the client disconnects. */
  signal?: (() => AbortSignal) | undefined;
}

/** A job's place among those that run. */
export interface Turn {
  /** Increases the job's cost, which may be known only while it runs. */
  addCost(cost: number): void;
  /**
   * Frees the place while the job waits for a third party.
   * @returns the result of `wait`, once the job has a place again
   */
  pause<T>(wait: () => Promise<T>): Promise<T>;
}

export interface FairQueue {
  /**
   * Runs a job when it is its turn.
   * @throws QueueFull when too many jobs wait, of all clients or of this one; ClientDisconnected when `signal` aborts before it starts;
   * whatever the job throws
   */
  run<T>(client: Client, job: (turn: Turn) => Promise<T>, options?: JobOptions): Promise<T>;
  /** The number of a share's waiting jobs. */
  queuedOf(group: string, share: string): number;
  /** The number of all waiting jobs. */
  readonly queued: number;
  /** Resolves once no job waits or runs, at the latest after some milliseconds: for work that should not delay them. */
  idle(atMostMs: number): Promise<void>;
}

/** The job was refused: too many wait. */
export class QueueFull extends Error {
  override readonly name = 'QueueFull';
  /** Whether the waiting jobs are the client's own. */
  readonly isOwn: boolean;
  constructor(isOwn: boolean) {
    super(isOwn ? 'Too many requests of this network are waiting' : 'Too many requests are waiting');
    this.isOwn = isOwn;
  }
}

/** The client disconnected before its job started. */
export class ClientDisconnected extends Error {
  override readonly name = 'ClientDisconnected';
  constructor() {
    super('The client disconnected before its request was served');
  }
}

/** Whether an error means that a job was not started; the backend's root answers its request. */
export function isQueueRejection(error: unknown): error is QueueFull | ClientDisconnected {
  return error instanceof QueueFull || error instanceof ClientDisconnected;
}

/** The HTTP status for a job that was not started: 429 if the client's own jobs fill the queue, else 503. */
export const queueRejectionStatus = (error: unknown): 429 | 503 =>
  error instanceof QueueFull && error.isOwn ? 429 : 503;

const maxAcceptingMs = 20;

interface Share {
  parent: Share | null;
  name: string;
  depth: number;
  children: Map<string, Share>;
  jobs: Job[];
  queued: number;
  running: number;
  /** Work done for this share, on the clock of its parent. */
  used: number;
  /** The clock of the nested shares that are served now: an idle share that returns starts here, without credit. */
  clock: number;
  /** No job starts before, on the clock of the queue. */
  restsUntil: number;
}

interface Job {
  share: Share;
  cost: number;
  start(place: Place): void;
  refuse(error: Error): void;
}

interface Place {
  share: Share;
  startedAt: number;
}

/** Creates the queue. */
export function createFairQueue(options: FairQueueOptions): FairQueue {
  const { concurrency, maxRunningPerShare, startsPerTurn, maxQueued, maxQueuedPerShare } = options;
  const { startIntervalMs = 0, restAbove = {}, maxRestMs = Number.POSITIVE_INFINITY } = options;
  const { queuedBefore = () => 0, isAlone = () => false, now = () => performance.now() } = options;
  const { acceptedConnections = () => 0 } = options;
  const maxRunningAt = [concurrency, Math.max(1, concurrency - 1), maxRunningPerShare];
  const root = newShare(null, '');
  let startsOfTurn = 0;
  let isDispatchDue = false;
  let nextStartAt = 0;
  let accepted = 0;
  let acceptingSince: number | null = null;

  const waitingForIdle = new Set<() => void>();
  const isIdle = () => root.queued === 0 && root.running === 0;
  const hasPlace = ({ depth, running }: Share) => running < (maxRunningAt[depth] ?? Number.POSITIVE_INFINITY);
  const isFlooding = ({ parent, name, queued }: Share) => {
    const allowed = restAbove[parent?.name ?? ''];
    return allowed !== undefined && queued + queuedBefore(name) > allowed;
  };
  const rests = (share: Share) => share.restsUntil > 0 && isFlooding(share) && share.restsUntil > now();
  const canStart = (share: Share): boolean => {
    if (share.queued === 0 || !hasPlace(share) || rests(share)) return false;
    if (share.jobs.length > 0) return true;
    for (const child of share.children.values()) if (canStart(child)) return true;
    return false;
  };
  /** The share within this one that has had the least work done, of those that can start a job. */
  const nextIn = (share: Share): Share | null => {
    let next: Share | null = null;
    for (const child of share.children.values()) {
      if ((next === null || child.used < next.used) && canStart(child)) next = child;
    }
    return next;
  };

  const endTurn = () => {
    startsOfTurn = 0;
  };
  /** Whether this turn of the event loop has a start left, and no connection was accepted since the last dispatch. */
  const canStartInTurn = () =>
    startsOfTurn < startsPerTurn &&
    acceptedConnections() === accepted &&
    (startIntervalMs === 0 || now() >= nextStartAt);
  /** Counts a start, of a job that waited or of a new one. */
  const begin = (share: Share, cost: number, waited: 0 | 1): Place => {
    if (startsOfTurn === 0) setImmediate(endTurn);
    startsOfTurn += 1;
    if (startIntervalMs > 0) nextStartAt = now() + startIntervalMs;
    for (let at = share; at.parent; at = at.parent) at.parent.clock = Math.max(at.parent.clock, at.used);
    charge(share, cost);
    count(share, -waited, 1);
    return { share, startedAt: now() };
  };
  const startNext = () => {
    let share = root;
    for (let next = nextIn(share); next; next = nextIn(next)) share = next;
    const job = share.jobs.shift();
    if (job) job.start(begin(share, job.cost, 1));
  };
  /** Starts waiting jobs in the places that have become free. */
  const startWaiting = () => {
    while (root.queued > 0 && canStartInTurn() && canStart(root)) startNext();
  };
  /** Whether a new job has a place and nothing to wait for. */
  const startsAtOnce = (share: Share): boolean => {
    if (root.queued > 0 || !canStartInTurn()) return false;
    for (let at: Share | null = share; at; at = at.parent) if (!hasPlace(at) || rests(at)) return false;
    return true;
  };
  /** Whether connections were accepted since the last call, except in 20 ms after each 20 ms of such calls. */
  const isAccepting = () => {
    const before = accepted;
    accepted = acceptedConnections();
    if (accepted === before) acceptingSince = null;
    else acceptingSince ??= now();
    if (acceptingSince === null) return false;
    const acceptingMs = now() - acceptingSince;
    if (acceptingMs >= 2 * maxAcceptingMs) acceptingSince = null;
    return acceptingMs < maxAcceptingMs;
  };
  const dispatchSoon = () => {
    if (isDispatchDue || !canStart(root)) return;
    isDispatchDue = true;
    const dispatch = () => {
      if (isAccepting()) {
        setImmediate(dispatch);
        return;
      }
      isDispatchDue = false;
      startWaiting();
      dispatchSoon();
    };
    const wait = nextStartAt - now();
    if (wait > 0) setTimeout(dispatch, wait);
    else setImmediate(dispatch);
  };
  const wake = (share: Share) => {
    setTimeout(() => (rests(share) ? wake(share) : dispatchSoon()), share.restsUntil - now());
  };
  const end = ({ share, startedAt }: Place) => {
    const ownShare = ancestorAt(share, 2);
    if (isFlooding(ownShare) && !isAlone(ownShare.name)) {
      ownShare.restsUntil = now() + Math.min(2 * (now() - startedAt), maxRestMs);
      wake(ownShare);
    }
    count(share, 0, -1);
    startWaiting();
    dispatchSoon();
    if (isIdle()) for (const proceed of waitingForIdle) proceed();
  };

  const refuseNewest = (within: Share, isOwn: boolean) => {
    let fullest = within;
    while (fullest.children.size > 0 && fullest.jobs.length === 0) {
      let next: Share | null = null;
      for (const child of fullest.children.values()) if (!next || child.queued > next.queued) next = child;
      if (!next) break;
      fullest = next;
    }
    const job = fullest.jobs.at(-1);
    if (job) leave(job, new QueueFull(isOwn));
  };
  const leave = (job: Job, error: Error) => {
    const at = job.share.jobs.indexOf(job);
    if (at < 0) return;
    job.share.jobs.splice(at, 1);
    count(job.share, -1, 0);
    job.refuse(error);
  };

  /** The client's place, or a promise of it. */
  const enter = (client: Client, { cost = 1, signal }: JobOptions): Place | Promise<Place> => {
    const share = shareOf(root, client);
    if (startsAtOnce(share)) return begin(share, cost, 0);
    return new Promise((resolve, reject) => {
      let isWaiting = true;
      let waiting: AbortSignal | null = null;
      const onAbort = () => leave(job, new ClientDisconnected());
      const settle = () => {
        isWaiting = false;
        waiting?.removeEventListener('abort', onAbort);
      };
      const job: Job = {
        share,
        cost,
        start(place) {
          settle();
          resolve(place);
        },
        refuse(error) {
          settle();
          reject(error);
        },
      };
      share.jobs.push(job);
      count(share, 1, 0);
      dispatchSoon();
      const ownShare = ancestorAt(share, 2);
      if (ownShare.queued > maxQueuedPerShare) refuseNewest(ownShare, true);
      else if (root.queued > maxQueued) refuseNewest(root, false);
      if (!isWaiting) return;
      waiting = signal?.() ?? null;
      if (waiting?.aborted) onAbort();
      else waiting?.addEventListener('abort', onAbort, { once: true });
    });
  };

  return {
    async run(client, job, jobOptions = {}) {
      const entered = enter(client, jobOptions);
      let place: Place | null = entered instanceof Promise ? await entered : entered;
      const turn: Turn = {
        addCost(cost) {
          if (place) charge(place.share, cost);
        },
        async pause(wait) {
          if (place) end(place);
          place = null;
          try {
            return await wait();
          } finally {
            place = await enter(client, jobOptions);
          }
        },
      };
      try {
        return await job(turn);
      } finally {
        if (place) end(place);
      }
    },
    queuedOf: (group, share) => root.children.get(group)?.children.get(share)?.queued ?? 0,
    get queued() {
      return root.queued;
    },
    async idle(atMostMs) {
      if (isIdle()) return;
      await new Promise<void>((resolve) => {
        const proceed = () => {
          clearTimeout(timer);
          waitingForIdle.delete(proceed);
          resolve();
        };
        const timer = setTimeout(proceed, atMostMs);
        waitingForIdle.add(proceed);
      });
    },
  };
}

function newShare(parent: Share | null, name: string): Share {
  const depth = parent ? parent.depth + 1 : 0;
  // An idle share gets no credit for the time without jobs.
  const used = parent?.clock ?? 0;
  const none = { queued: 0, running: 0, clock: 0, restsUntil: 0 };
  return { parent, name, depth, children: new Map(), jobs: [], used, ...none };
}

function shareOf(root: Share, client: Client): Share {
  let share = root;
  for (const name of client) {
    const child = share.children.get(name) ?? newShare(share, name);
    share.children.set(name, child);
    share = child;
  }
  return share;
}

function charge(share: Share, cost: number): void {
  for (let at: Share | null = share; at; at = at.parent) at.used += cost;
}

function ancestorAt(share: Share, depth: number): Share {
  let at = share;
  while (at.depth > depth && at.parent) at = at.parent;
  return at;
}

/** Counts a job in all shares it belongs to, and forgets those that have none left. */
function count(share: Share, queued: number, running: number): void {
  for (let at: Share | null = share; at; at = at.parent) {
    at.queued += queued;
    at.running += running;
    if (at.queued === 0 && at.running === 0) at.parent?.children.delete(at.name);
  }
}
