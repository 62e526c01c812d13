// Fair queue: a few jobs run concurrently, the others wait per share. A client with many heavy jobs delays only itself.

/**
 * Who a job is for: names of nested shares, the widest first, such as `['visitors', '192.0.2.0/24', '192.0.2.1']`. The shares within
 * a share are served in turn.
 */
export type Client = readonly [group: string, ...shares: string[]];

export interface FairQueueOptions {
  /** Maximum concurrent jobs. The last free place is never for a group that has all others. */
  concurrency: number;
  /** Maximum concurrent jobs of one share within a group, such as a network. */
  maxRunningPerShare: number;
  /**
   * Jobs that start in one turn of the event loop. 1 where a job may block it: what came in at the same time is compared first, and what
   * needs no queue is answered in between.
   */
  startsPerTurn: number;
  /** Milliseconds from the start of one job to the start of the next, at least; with one start per turn. Default: 0. */
  startIntervalMs?: number;
  /** Jobs that wait. Beyond, the newest job of the client with the most jobs is refused. */
  maxQueued: number;
  /** Jobs that wait of one share within a group. */
  maxQueuedPerShare: number;
  /**
   * By group: jobs of one share within it that may wait. A share with more rests after each job for twice as long as the job took, so
   * that a flood takes a third of the machine at most, even while no other share waits. Default: no share rests.
   */
  restAbove?: Readonly<Record<string, number>>;
  /**
   * Jobs of a share that wait in an earlier queue, which lets in only as many as are processed: they count for `restAbove`, too.
   * Default: 0.
   */
  queuedBefore?: (share: string) => number;
  /** Whether a share has no competitors, so that it need not rest. Default: no share is alone. */
  isAlone?: (share: string) => boolean;
  /** Milliseconds that a share rests at most, where long jobs only wait for others. Default: unlimited. */
  maxRestMs?: number;
  /** Milliseconds of a monotonic clock. */
  now?: () => number;
}

export interface JobOptions {
  /** Cost of the job relative to others: shares get equal cost, not equal numbers of jobs. Default: 1. */
  cost?: number;
  /** Gives what is aborted when the client no longer waits for the job. */
  signal?: (() => AbortSignal) | undefined;
}

/** A job's place among those that run. */
export interface Turn {
  /** Increases the job's cost, where only the job itself knows it. */
  addCost(cost: number): void;
  /**
   * Frees the place while the job waits for something external, such as the answer of a third party.
   * @returns what `wait` returns, once it is the job's turn again
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
}

/** The job was refused: too many wait. */
export class QueueFull extends Error {
  override readonly name = 'QueueFull';
  /** Whether they are the client's own. */
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
export function isTurnedAway(error: unknown): error is QueueFull | ClientDisconnected {
  return error instanceof QueueFull || error instanceof ClientDisconnected;
}

/** The HTTP status for a job that was not started: 429 if the client's own jobs fill the queue, else 503. */
export const turnedAwayStatus = (error: unknown): 429 | 503 =>
  error instanceof QueueFull && error.isOwn ? 429 : 503;

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
  start(): void;
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
  const maxRunningAt = [concurrency, Math.max(1, concurrency - 1), maxRunningPerShare];
  const root = newShare(null, '');
  let isDispatchDue = false;
  let nextStartAt = 0;

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

  const startNext = () => {
    let share = root;
    const way: Share[] = [];
    for (let next = nextIn(share); next; next = nextIn(next)) {
      way.push(next);
      share = next;
    }
    const job = share.jobs.shift();
    if (!job) return;
    for (const { parent, used } of way) if (parent) parent.clock = Math.max(parent.clock, used);
    charge(share, job.cost);
    count(share, -1, 1);
    job.start();
  };
  const dispatchSoon = () => {
    if (isDispatchDue || !canStart(root)) return;
    isDispatchDue = true;
    const dispatch = () => {
      isDispatchDue = false;
      nextStartAt = now() + startIntervalMs;
      for (let started = 0; started < startsPerTurn && canStart(root); started += 1) startNext();
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
    dispatchSoon();
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

  /** Resolves when the client has a place. */
  const enter = (client: Client, { cost = 1, signal }: JobOptions): Promise<Place> =>
    new Promise((resolve, reject) => {
      const share = shareOf(root, client);
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
        start() {
          settle();
          resolve({ share, startedAt: now() });
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

  return {
    async run(client, job, jobOptions = {}) {
      let place: Place | null = await enter(client, jobOptions);
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
  };
}

function newShare(parent: Share | null, name: string): Share {
  const depth = parent ? parent.depth + 1 : 0;
  // After a time without jobs a share has no claim to the work it did not ask for.
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
