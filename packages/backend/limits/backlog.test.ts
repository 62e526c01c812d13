import { describe, expect, test } from 'vitest';
import { Backlog, type Reader } from './backlog.ts';
import { QueueFull } from './fair-queue.ts';
import { networksOf } from './network.ts';

const limits = { queuedBytes: 1_000, queuedBytesPerNetwork: 400 };

/** Readers that read only on command, and the order of their termination. */
function readersOf(backlog: Backlog) {
  const terminated: string[] = [];
  const reader = (name: string, address?: string) => {
    const made = {
      networks: address ? networksOf(address) : [],
      queuedBytes: 0,
      terminate() {
        terminated.push(name);
        made.queuedBytes = 0;
      },
    } satisfies Reader;
    const send = (bytes: number, now?: number) => {
      made.queuedBytes += bytes;
      backlog.note(made, bytes, now);
    };
    return Object.assign(made, { send });
  };
  return { reader, terminated };
}

describe('unread bytes', () => {
  test('terminate readers that do not read, the largest backlog first, above the total limit', () => {
    const backlog = new Backlog(limits);
    const { reader, terminated } = readersOf(backlog);
    reader('little').send(100, 0);
    reader('more').send(300, 0);
    reader('most').send(500, 0);
    reader('fresh').send(400, 1_500);
    expect(terminated).toEqual(['most']);
  });

  test.each([
    ['of all', undefined, 900],
    ['of its network', '192.0.2.1', 1_200],
  ])('never terminate a small reader in place of larger ones %s that came later', (_, address, bytes) => {
    const backlog = new Backlog(address ? { ...limits, queuedBytes: 10_000 } : limits);
    const { reader, terminated } = readersOf(backlog);
    reader('small', address).send(10, 0);
    reader('large', address).send(bytes, 1_500);
    expect(terminated).toEqual([]);
    backlog.enforce(2_600);
    expect(terminated).toEqual(['large']);
  });

  test('never terminate a client that reads', () => {
    const backlog = new Backlog(limits);
    const { reader, terminated } = readersOf(backlog);
    const reading = Array.from({ length: 20 }, (_, n) => reader(String(n)));
    for (let now = 0; now < 10_000; now += 500) {
      for (const one of reading) {
        one.queuedBytes = 0;
        one.send(49, now);
      }
    }
    expect(terminated).toEqual([]);
  });

  test('are limited per network', () => {
    const backlog = new Backlog(limits);
    const { reader, terminated } = readersOf(backlog);
    reader('a', '192.0.2.1').send(250, 0);
    reader('b', '192.0.2.1').send(200, 0);
    reader('elsewhere', '198.51.100.1').send(300, 0);
    reader('later', '203.0.113.1').send(100, 1_500);
    expect(terminated).toEqual(['a']);
  });

  test('may wait a second, then readers that did not read are terminated', async () => {
    const backlog = new Backlog(limits);
    const { reader, terminated } = readersOf(backlog);
    const [quick, slow, slowest] = [reader('quick'), reader('slow'), reader('slowest')];
    expect(backlog.drained()).toBeNull();
    quick.send(200);
    slow.send(380);
    slowest.send(400);
    const room = backlog.drained();
    expect(room).not.toBeNull();
    quick.queuedBytes = 0;
    await room;
    expect(terminated).toEqual(['slowest']);
    expect(backlog.drained()).toBeNull();
  });

  test('above the whole limit, terminate the largest of the heaviest network, of equal ones the oldest', () => {
    const backlog = new Backlog({ queuedBytes: 1_000, queuedBytesPerNetwork: 10_000 });
    const { reader, terminated } = readersOf(backlog);
    reader('elsewhere', '198.51.100.1').send(290, 0);
    reader('small', '192.0.2.1').send(100, 10);
    reader('first', '192.0.2.1').send(200, 20);
    reader('second', '192.0.2.2').send(200, 30);
    expect(terminated).toEqual([]);
    reader('newcomer', '203.0.113.1').send(250, 40);
    expect(terminated).toEqual(['first']);
  });

  test('no longer count after their reader is closed', () => {
    const backlog = new Backlog(limits);
    const { reader, terminated } = readersOf(backlog);
    const gone = reader('gone');
    gone.send(900, 0);
    backlog.forget(gone);
    reader('here').send(900, 1_500);
    expect(terminated).toEqual([]);
  });
});

describe('memory for an answer', () => {
  // Each answer reserves 2 MB.
  const megabytes = (queuedBytes: number, queuedBytesPerNetwork = queuedBytes) =>
    new Backlog({ queuedBytes: queuedBytes * 1e6, queuedBytesPerNetwork: queuedBytesPerNetwork * 1e6 });
  const own = networksOf('192.0.2.1');
  const reasonOf = (call: () => unknown) => {
    try {
      return call();
    } catch (error) {
      return error instanceof QueueFull ? { isOwn: error.isOwn } : error;
    }
  };

  test('is refused to a network that does not read, before any work, but not to others', () => {
    const backlog = megabytes(100, 10);
    const { reader, terminated } = readersOf(backlog);
    for (let n = 0; n < 5; n += 1) reader(String(n), '192.0.2.1').send(1.9e6, 0);
    expect(reasonOf(() => backlog.reserve(own, 10))).toEqual({ isOwn: true });
    expect(backlog.reserve(networksOf('192.0.2.2'), 10)).toBeTypeOf('function');
    expect(backlog.reserve([], 10)).toBeTypeOf('function');
    expect(terminated).toEqual([]);
  });

  test('is free again when neighbours of the network have not read for a second', () => {
    const backlog = megabytes(100, 10);
    const { reader, terminated } = readersOf(backlog);
    for (let n = 0; n < 5; n += 1) reader(String(n), '192.0.2.1').send(2.5e6, 0);
    expect(backlog.reserve(own, 1_500)).toBeTypeOf('function');
    expect(terminated).toEqual(['0', '1']);
  });

  test('is made by the heaviest network, whatever it has just requested', () => {
    const backlog = megabytes(10, 100);
    const { reader, terminated } = readersOf(backlog);
    reader('neighbour', '198.51.100.1').send(1e6, 0);
    for (let n = 0; n < 4; n += 1) reader(String(n), '192.0.2.1').send(2e6, n);
    backlog.reserve(networksOf('203.0.113.1'), 4);
    expect(terminated).toEqual(['0']);
  });

  test('is refused to everyone while all of it is reserved, and free again afterwards', () => {
    const backlog = megabytes(4);
    const [first] = [backlog.reserve([]), backlog.reserve([])];
    expect(reasonOf(() => backlog.reserve([]))).toEqual({ isOwn: false });
    first?.();
    first?.();
    expect(backlog.reserve([])).toBeTypeOf('function');
    expect(reasonOf(() => backlog.reserve([]))).toEqual({ isOwn: false });
  });
});
