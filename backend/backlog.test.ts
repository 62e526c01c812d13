import { describe, expect, test } from 'vitest';
import { Backlog, type Reader } from './backlog.ts';
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
    ['of all', undefined],
    ['of its network', '192.0.2.1'],
  ])('never terminate a small reader in place of larger ones %s that came later', (_, address) => {
    const backlog = new Backlog(address ? { ...limits, queuedBytes: 10_000 } : limits);
    const { reader, terminated } = readersOf(backlog);
    reader('small', address).send(10, 0);
    reader('large', address).send(1_200, 1_500);
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
    quick.send(600);
    slow.send(700);
    slowest.send(800);
    const room = backlog.drained();
    expect(room).not.toBeNull();
    quick.queuedBytes = 0;
    await room;
    expect(terminated).toEqual(['slowest']);
    expect(backlog.drained()).toBeNull();
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
