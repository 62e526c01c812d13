import { setImmediate as nextLoop } from 'node:timers/promises';
import { expect, test } from 'vitest';
import {
  type Client,
  ClientDisconnected,
  createFairQueue,
  type JobOptions,
  QueueFull,
  type Turn,
} from './fair-queue.ts';

const visitor = (network: string, address = network): Client => ['visitors', network, address];

/** A queue with jobs that the test ends, in the order they started. */
function openQueue(bounds: Partial<Parameters<typeof createFairQueue>[0]> = {}) {
  const queue = createFairQueue({
    concurrency: 1,
    maxRunningPerShare: 10,
    startsPerTurn: 10,
    maxQueued: 100,
    maxQueuedPerShare: 50,
    ...bounds,
  });
  const started: string[] = [];
  const ends: (() => void)[] = [];
  const wait = () => new Promise<void>((done) => ends.push(done));
  const run = (client: Client, name: string, options?: JobOptions, job?: (turn: Turn) => Promise<void>) => {
    const result = queue.run(
      client,
      async (turn) => {
        started.push(name);
        await (job ? job(turn) : wait());
        return name;
      },
      options,
    );
    result.catch(() => {});
    return result;
  };
  /** Adds a job whose result does not matter. */
  const add = (...job: Parameters<typeof run>): void => void run(...job);
  /** Ends jobs until none runs. */
  const drain = async () => {
    await nextLoop();
    while (ends.length > 0) await endOne();
    return started;
  };
  const endOne = async () => {
    ends.shift()?.();
    await nextLoop();
    await nextLoop();
  };
  return { queue, run, add, drain, endOne, started };
}

test('serves networks in turn, however many jobs one has', async () => {
  const { add, drain } = openQueue();
  for (let n = 1; n <= 5; n += 1) add(visitor('flood'), `flood ${n}`);
  add(visitor('a'), 'a');
  add(visitor('b'), 'b');
  expect(await drain()).toEqual(['flood 1', 'a', 'b', 'flood 2', 'flood 3', 'flood 4', 'flood 5']);
});

test('gives a network with many addresses the share of one', async () => {
  const { add, drain } = openQueue();
  for (let n = 1; n <= 6; n += 1) add(visitor('wide', `address ${n}`), `wide ${n}`);
  add(visitor('a'), 'a 1');
  add(visitor('a'), 'a 2');
  expect(await drain()).toEqual(['wide 1', 'a 1', 'wide 2', 'a 2', 'wide 3', 'wide 4', 'wide 5', 'wide 6']);
});

test('serves the addresses of a network in turn', async () => {
  const { add, drain } = openQueue();
  for (let n = 1; n <= 3; n += 1) add(visitor('n', 'flood'), `flood ${n}`);
  add(visitor('n', 'neighbour'), 'neighbour');
  expect(await drain()).toEqual(['flood 1', 'neighbour', 'flood 2', 'flood 3']);
});

test('serves staff and the secret key in turn with all visitors together', async () => {
  const { add, drain } = openQueue();
  for (let n = 1; n <= 4; n += 1) add(visitor(`network ${n}`), `visitor ${n}`);
  add(['staff', 'amina'], 'staff 1');
  add(['staff', 'amina'], 'staff 2');
  add(['secret key'], 'job');
  expect(await drain()).toEqual([
    'visitor 1',
    'staff 1',
    'job',
    'visitor 2',
    'staff 2',
    'visitor 3',
    'visitor 4',
  ]);
});

test('gives equal amounts of work to networks whose jobs cost differently', async () => {
  const { add, drain } = openQueue();
  add(visitor('first'), 'first');
  for (let n = 1; n <= 3; n += 1) add(visitor('heavy'), `heavy ${n}`, { cost: 3 });
  for (let n = 1; n <= 6; n += 1) add(visitor('light'), `light ${n}`);
  expect(await drain()).toEqual([
    'first',
    'heavy 1',
    'light 1',
    'light 2',
    'light 3',
    'heavy 2',
    'light 4',
    'light 5',
    'light 6',
    'heavy 3',
  ]);
});

test('an idle network accumulates no credit', async () => {
  const { add, drain, endOne } = openQueue();
  for (let n = 1; n <= 4; n += 1) add(visitor('a'), `a ${n}`);
  await nextLoop();
  await endOne();
  for (let n = 1; n <= 3; n += 1) add(visitor('late'), `late ${n}`);
  expect(await drain()).toEqual(['a 1', 'a 2', 'late 1', 'a 3', 'late 2', 'a 4', 'late 3']);
});

test('leaves places free for other networks and other groups', async () => {
  const { add, started: names } = openQueue({ concurrency: 4, maxRunningPerShare: 2 });
  const started = async () => {
    await nextLoop();
    return names;
  };
  for (let n = 1; n <= 4; n += 1) add(visitor('flood'), `flood ${n}`);
  expect(await started()).toEqual(['flood 1', 'flood 2']);
  add(visitor('a'), 'a');
  expect(await started()).toEqual(['flood 1', 'flood 2', 'a']);
  // The fourth place is reserved for other groups than visitors.
  add(visitor('b'), 'b');
  expect(await started()).toEqual(['flood 1', 'flood 2', 'a']);
  add(['staff', 'amina'], 'staff');
  expect(await started()).toEqual(['flood 1', 'flood 2', 'a', 'staff']);
});

test('rejects the newest jobs of a network above its limit', async () => {
  const { run, add, drain } = openQueue({ maxQueuedPerShare: 2 });
  add(visitor('n', 'flood'), 'running');
  add(visitor('n', 'flood'), 'flood 1');
  const newest = run(visitor('n', 'flood'), 'flood 2');
  const neighbour = run(visitor('n', 'neighbour'), 'neighbour');
  await expect(newest).rejects.toThrow(QueueFull);
  await expect(newest).rejects.toMatchObject({ isOwn: true });
  await drain();
  expect(await neighbour).toBe('neighbour');
});

test('rejects the newest job of the client with the most jobs when the queue is full', async () => {
  const { run, add, drain } = openQueue({ maxQueued: 3 });
  add(visitor('flood'), 'running');
  for (let n = 1; n <= 2; n += 1) add(visitor('flood'), `flood ${n}`);
  const newest = run(visitor('flood'), 'flood 3');
  const newcomer = run(visitor('a'), 'a');
  await expect(newest).rejects.toMatchObject({ name: 'QueueFull', isOwn: false });
  await drain();
  expect(await newcomer).toBe('a');
});

test('removes a job whose client disconnected before it started', async () => {
  const { run, add, drain } = openQueue();
  const disconnect = new AbortController();
  const signal = () => disconnect.signal;
  add(visitor('a'), 'running', { signal });
  await nextLoop();
  const waiting = run(visitor('a'), 'waiting', { signal });
  add(visitor('a'), 'last');
  disconnect.abort();
  await expect(waiting).rejects.toThrow(ClientDisconnected);
  await expect(run(visitor('a'), 'late', { signal })).rejects.toThrow(ClientDisconnected);
  expect(await drain()).toEqual(['running', 'last']);
});

test('a failed job frees its place', async () => {
  const { queue, run, drain } = openQueue();
  const failing = queue.run(visitor('a'), async () => {
    throw new Error('broken');
  });
  const next = run(visitor('a'), 'next');
  await expect(failing).rejects.toThrow('broken');
  await nextLoop();
  await drain();
  expect(await next).toBe('next');
});

test('a paused job frees its place and queues for it again', async () => {
  const { run, add, drain, started } = openQueue();
  let answer = () => {};
  const paused = run(visitor('a'), 'pays', undefined, async (turn) => {
    const answered = await turn.pause(() => new Promise<string>((done) => (answer = () => done('paid'))));
    started.push(answered);
  });
  add(visitor('b'), 'b 1');
  await nextLoop();
  await nextLoop();
  expect(started).toEqual(['pays', 'b 1']);
  const last = run(visitor('b'), 'b 2');
  answer();
  await nextLoop();
  await drain();
  expect(await paused).toBe('pays');
  await nextLoop();
  await drain();
  expect(await last).toBe('b 2');
  expect(started).toEqual(['pays', 'b 1', 'paid', 'b 2']);
});

test('starts jobs that block the event loop one per iteration', async () => {
  const { queue } = openQueue({ concurrency: 4, startsPerTurn: 1 });
  let turn = 0;
  const timer = setImmediate(function count() {
    turn += 1;
    immediate = setImmediate(count);
  });
  let immediate = timer;
  const iterations = await Promise.all(['1', '2', '3'].map(() => queue.run(visitor('a'), async () => turn)));
  clearImmediate(immediate);
  expect(new Set(iterations).size).toBe(3);
});

test('a job starts at once while no other one waits', () => {
  const { add, started } = openQueue({ concurrency: 4, maxRunningPerShare: 2, startsPerTurn: 3 });
  for (const network of ['a', 'a', 'a', 'b']) add(visitor(network), network);
  // The third waits for a place of its network, and therefore the fourth for its turn.
  expect(started).toEqual(['a', 'a']);
});

test('waiting jobs take free places in the same turn of the event loop, up to a limit', async () => {
  const { run, started } = openQueue({ concurrency: 1, startsPerTurn: 3 });
  const jobs = ['1', '2', '3', '4', '5'].map((name) => run(visitor(name), name, {}, async () => {}));
  await jobs[2];
  expect(started).toEqual(['1', '2', '3']);
  await Promise.all(jobs);
  expect(started).toEqual(['1', '2', '3', '4', '5']);
});

test('jobs wait while connections are accepted, but not for more than 20 ms', async () => {
  let connections = 0;
  let time = 0;
  const { add, started } = openQueue({
    concurrency: 3,
    startsPerTurn: 1,
    acceptedConnections: () => connections,
    now: () => time,
  });
  const acceptOne = async (afterMs: number) => {
    connections += 1;
    time += afterMs;
    await nextLoop();
  };
  await acceptOne(1);
  add(visitor('a'), 'after a burst');
  for (let n = 0; n < 5; n += 1) await acceptOne(1);
  expect(started).toEqual([]);
  await nextLoop();
  expect(started).toEqual(['after a burst']);
  add(visitor('a'), 'during a flood');
  for (let n = 0; n < 5; n += 1) await acceptOne(6);
  expect(started).toEqual(['after a burst', 'during a flood']);
});

test('in a long flood of connections, jobs run half of the time', async () => {
  let connections = 0;
  let time = 0;
  const queue = createFairQueue({
    concurrency: 1,
    maxRunningPerShare: 1,
    startsPerTurn: 1,
    maxQueued: 1_000,
    maxQueuedPerShare: 1_000,
    acceptedConnections: () => connections,
    now: () => time,
  });
  let started = 0;
  for (let n = 0; n < 1_000; n += 1) {
    void queue.run(visitor('a'), async () => {
      started += 1;
    });
  }
  for (let n = 0; n < 400; n += 1) {
    connections += 1;
    time += 1;
    await nextLoop();
  }
  expect(started).toBeGreaterThan(150);
  expect(started).toBeLessThan(250);
});

test('compares jobs of the same event loop iteration before the first starts', async () => {
  const { add, drain } = openQueue();
  for (let n = 1; n <= 3; n += 1) add(visitor('flood'), `flood ${n}`, { cost: 5 });
  add(['signed in', 'amina'], 'amina');
  expect(await drain()).toEqual(['flood 1', 'amina', 'flood 2', 'flood 3']);
});

test('a share with many waiting jobs rests after each for twice its duration, others do not', async () => {
  let time = 0;
  const { add, started, endOne } = openQueue({
    concurrency: 2,
    maxRunningPerShare: 1,
    restAbove: { visitors: 2 },
    now: () => time,
  });
  for (let n = 1; n <= 4; n += 1) add(visitor('flood'), `flood ${n}`);
  await nextLoop();
  time += 5;
  await endOne();
  expect(started).toEqual(['flood 1']);
  add(visitor('a'), 'a');
  await nextLoop();
  expect(started).toEqual(['flood 1', 'a']);
  await endOne();
  time += 9;
  await nextLoop();
  expect(started).toEqual(['flood 1', 'a']);
  time += 1;
  await expect.poll(() => started).toEqual(['flood 1', 'a', 'flood 2']);
  // Two waiting jobs are not a flood, so nothing rests.
  await endOne();
  expect(started).toEqual(['flood 1', 'a', 'flood 2', 'flood 3']);
});

test('jobs in an earlier queue count towards the rest threshold', async () => {
  let time = 0;
  let queuedBefore = 3;
  const { add, started, endOne } = openQueue({
    maxRunningPerShare: 1,
    restAbove: { visitors: 2 },
    queuedBefore: () => queuedBefore,
    now: () => time,
  });
  for (let n = 1; n <= 3; n += 1) add(visitor('flood'), `flood ${n}`);
  await nextLoop();
  time += 5;
  await endOne();
  await nextLoop();
  expect(started).toEqual(['flood 1']);
  time += 10;
  await expect.poll(() => started).toEqual(['flood 1', 'flood 2']);
  queuedBefore = 0;
  await endOne();
  expect(started).toEqual(['flood 1', 'flood 2', 'flood 3']);
});

test('counts the waiting jobs of a share', async () => {
  const { queue, add } = openQueue({ concurrency: 1 });
  expect(queue.queuedOf('visitors', 'flood')).toBe(0);
  for (let n = 1; n <= 3; n += 1) add(visitor('flood'), `flood ${n}`);
  await nextLoop();
  expect(queue.queuedOf('visitors', 'flood')).toBe(2);
});

test('`idle` resolves when all jobs have ended, or after the given time', async () => {
  const { queue, add, endOne } = openQueue();
  await queue.idle(60_000);
  add(visitor('A'), 'first');
  add(visitor('A'), 'second');
  await queue.idle(1);
  let isIdle = false;
  const idle = queue.idle(60_000).then(() => {
    isIdle = true;
  });
  await endOne();
  expect(isIdle).toBe(false);
  await endOne();
  expect(isIdle).toBe(true);
  await idle;
});

test('a share without competitors does not rest', async () => {
  let time = 0;
  const { add, started, endOne } = openQueue({
    maxRunningPerShare: 1,
    restAbove: { visitors: 2 },
    isAlone: (share) => share === 'alone',
    now: () => time,
  });
  for (let n = 1; n <= 4; n += 1) add(visitor('alone'), `job ${n}`);
  await nextLoop();
  time += 5;
  await endOne();
  expect(started).toEqual(['job 1', 'job 2']);
});

test('a share rests no longer than the longest rest', async () => {
  let time = 0;
  const { add, started, endOne } = openQueue({
    maxRunningPerShare: 1,
    restAbove: { visitors: 2 },
    maxRestMs: 50,
    now: () => time,
  });
  for (let n = 1; n <= 4; n += 1) add(visitor('flood'), `flood ${n}`);
  await nextLoop();
  time += 10_000;
  await endOne();
  await nextLoop();
  expect(started).toEqual(['flood 1']);
  time += 50;
  await expect.poll(() => started).toEqual(['flood 1', 'flood 2']);
});

test('respects the minimum interval between job starts across all shares', async () => {
  let time = 0;
  const { run, started, endOne } = openQueue({
    concurrency: 3,
    startsPerTurn: 1,
    startIntervalMs: 50,
    now: () => time,
  });
  void run(visitor('a'), 'a');
  void run(visitor('b'), 'b');
  await nextLoop();
  expect(started).toEqual(['a']);
  await endOne();
  expect(started).toEqual(['a']);
  time += 50;
  await expect.poll(() => started).toEqual(['a', 'b']);
  time += 50;
  await endOne();
  void run(visitor('c'), 'c');
  await nextLoop();
  expect(started).toEqual(['a', 'b', 'c']);
});

test('a job can increase its cost while it runs', async () => {
  const { add, drain } = openQueue();
  add(visitor('heavy'), 'heavy 1', {}, async (turn) => turn.addCost(2));
  for (const name of ['heavy 2', 'heavy 3']) add(visitor('heavy'), name);
  for (const name of ['light 1', 'light 2', 'light 3', 'light 4']) add(visitor('light'), name);
  await nextLoop();
  expect(await drain()).toEqual([
    'heavy 1',
    'light 1',
    'light 2',
    'light 3',
    'heavy 2',
    'light 4',
    'heavy 3',
  ]);
});
