import { expect, test } from 'vitest';
import { FanOut } from './fan-out.ts';

const many = (count: number) => new Set(Array.from({ length: count }, (_, n) => n));

/** A fan-out that records each delivery with its iteration of the event loop. */
function fanOutOf(drained: () => Promise<void> | null = () => null) {
  const errors: unknown[] = [];
  const fanOut = new FanOut({ drained, onError: (error) => errors.push(error) });
  const delivered: [message: string, receiver: number][] = [];
  const deliveriesPerIteration: number[] = [];
  let iteration = 0;
  const deliver = (message: string, receivers: ReadonlySet<number>, bytes = 0) =>
    fanOut.deliver(receivers, bytes, (receiver) => {
      delivered.push([message, receiver]);
      deliveriesPerIteration[iteration] = (deliveriesPerIteration[iteration] ?? 0) + 1;
    });
  /** Counts event loop iterations until a promise resolves. */
  const counted = async (work: Promise<void> | null) => {
    let isDone = false;
    void work?.then(() => {
      isDone = true;
    });
    while (work && !isDone) {
      await new Promise((done) => setImmediate(done));
      iteration += 1;
    }
  };
  return { fanOut, deliver, delivered, deliveriesPerIteration, counted, errors };
}

test('delivers a message to few receivers immediately', () => {
  const { deliver, delivered } = fanOutOf();
  expect(deliver('a', many(100))).toBeNull();
  expect(delivered).toHaveLength(100);
});

test('delivers a message to many receivers in slices, with other work in between', async () => {
  const { deliver, delivered, deliveriesPerIteration, counted } = fanOutOf();
  await counted(deliver('a', many(10_000)));
  expect(delivered).toHaveLength(10_000);
  expect(Math.max(...deliveriesPerIteration.filter(Boolean))).toBeLessThanOrEqual(500);
});

test('delivers many concurrent messages in slices and in order', async () => {
  const { deliver, delivered, deliveriesPerIteration, counted } = fanOutOf();
  const names = Array.from({ length: 100 }, (_, n) => String(n));
  const works = names.map((name) => deliver(name, many(100)));
  expect(delivered.length).toBeLessThan(500);
  await counted(Promise.all(works).then(() => {}));
  expect(delivered.map(([name]) => name)).toEqual(names.flatMap((name) => Array(100).fill(name)));
  expect(Math.max(...deliveriesPerIteration.filter(Boolean))).toBeLessThanOrEqual(500);
});

test('large messages count for more', async () => {
  const { deliver, deliveriesPerIteration, counted } = fanOutOf();
  await counted(deliver('a', many(20), 1_000_000));
  expect(Math.max(...deliveriesPerIteration.filter(Boolean))).toBeLessThanOrEqual(2);
});

test('skips receivers that join during a delivery, and continues after one fails', async () => {
  const { fanOut, errors } = fanOutOf();
  const receivers = many(1_000);
  const got: number[] = [];
  const work = fanOut.deliver(receivers, 0, (receiver) => {
    if (receiver === 500) throw new Error('broken');
    got.push(receiver);
  });
  receivers.add(1_000);
  await work;
  expect(got).toHaveLength(999);
  expect(errors).toEqual([new Error('broken')]);
  await new Promise((done) => setImmediate(done));
  expect(fanOut.deliver(many(1), 0, (receiver) => got.push(receiver))).toBeNull();
  expect(got).toHaveLength(1_000);
});

test('delivers nothing while unread bytes are above the limit', async () => {
  let makeRoom = () => {};
  let drained: Promise<void> | null = new Promise((done) => {
    makeRoom = () => {
      drained = null;
      done();
    };
  });
  const { deliver, delivered, counted } = fanOutOf(() => drained);
  const work = deliver('a', many(1_000));
  await new Promise((done) => setImmediate(done));
  const before = delivered.length;
  expect(before).toBeLessThan(1_000);
  await new Promise((done) => setTimeout(done, 20));
  expect(delivered).toHaveLength(before);
  makeRoom();
  await counted(work);
  expect(delivered).toHaveLength(1_000);
});
