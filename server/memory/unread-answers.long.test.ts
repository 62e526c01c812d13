// The promised limit of unread bytes, measured as memory of the process: clients request the largest answers and read none.
import { type ChildProcess, fork } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { testDatabases } from '@jani-juice/backend/testing';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { memoryEnvironment } from '../../scripts/deployment/memory-settings.mjs';

const answer = '/rest/v1/long_texts';
const file = '/storage/v1/object/public/files/large.bin';
/** Bytes that unread answers add to the process (packages/backend/decisions/unread-answers.md). */
const promisedBytes = 64_000_000;
/** Megabytes by which two measurements of the same work differ. */
const tolerance = 24;
const phaseMs = 6_000;

describe.each(testDatabases())('clients of %s that do not read', (kind) => {
  let folder: string;
  let path: string;
  let shop: ChildProcess;
  let sockets: Set<Socket>;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'jani-unread-'));
    path = join(folder, 'socket');
    sockets = new Set();
    shop = fork(new URL('unread-answers-process.ts', import.meta.url), [kind, path, folder], {
      // As `npm start` runs the shop (`applyMemorySettings`).
      execArgv: ['--heap-growing-percent=100', '--import', 'tsx'],
      env: { ...process.env, ...memoryEnvironment },
    });
    await new Promise((done, fail) => {
      shop.once('message', done);
      shop.once('exit', fail);
    });
  });
  afterEach(async () => {
    for (const socket of sockets) socket.destroy();
    shop.disconnect();
    await new Promise((done) => shop.once('exit', done));
    await rm(folder, { recursive: true, force: true });
  });

  const megabytes = async () => {
    const status = await readFile(`/proc/${shop.pid}/status`, 'utf8');
    return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024;
  };
  const headersOf = (address: string) => ({ apikey: 'sb_publishable_test', 'x-forwarded-for': address });
  const read = (address: string, target = '/rest/v1/long_texts?limit=1') =>
    new Promise<number | undefined>((done, fail) => {
      const sent = request({ socketPath: path, path: target, headers: headersOf(address) });
      sent.once('response', (response) => response.resume().once('end', () => done(response.statusCode)));
      sent.once('error', fail).end();
    });

  /** Opens connections, again and again, and reads none of the answers. */
  const attack = (connections: number, networks: number, paths: readonly string[]) => {
    const counts = { opened: 0, /** By the shop. */ closed: 0 };
    let isOver = false;
    const open = (index: number) => {
      if (isOver) return;
      const accept = index % 2 ? 'text/csv' : '*/*';
      const range = index % 3 ? {} : { range: 'bytes=1-' };
      const headers = { host: 'localhost', accept, ...headersOf(`10.${index % networks}.0.1`), ...range };
      const lines = Object.entries(headers);
      const head = lines.map(([name, value]) => `${name}: ${value}`).join('\r\n');
      const requests = paths.map((each) => `GET ${each} HTTP/1.1\r\n${head}\r\n\r\n`);
      const socket = connect(path);
      sockets.add(socket);
      counts.opened += 1;
      socket.on('error', () => {});
      socket.pause().write(requests.join(''));
      // A client that does not read learns of its end by writing.
      const heartbeat = setInterval(() => socket.write('\r\n'), 200);
      // It does not learn either that it was refused: after two to five seconds it closes the connection and opens another one.
      let hasGivenUp = false;
      const giveUp = () => {
        hasGivenUp = true;
        socket.destroy();
      };
      const givingUp = setTimeout(giveUp, 2_000 + 300 * (index % 10));
      socket.once('close', () => {
        clearInterval(heartbeat);
        clearTimeout(givingUp);
        sockets.delete(socket);
        if (!hasGivenUp) counts.closed += 1;
        setTimeout(open, 50, index);
      });
    };
    for (let index = 0; index < connections; index += 1) open(index);
    return {
      counts,
      stop: () => {
        isOver = true;
      },
    };
  };

  test.each<[string, number, number, readonly string[]]>([
    ['the largest answers, 200 connections of one network', 200, 1, [answer, answer]],
    ['answers and CSV, 400 connections of 40 networks', 400, 40, [answer, answer]],
    [
      'files, ranges and pages, 800 connections of 40 networks',
      800,
      40,
      [file, file, '/contact?a', '/shop?page=2'],
    ],
  ])(
    'hold no more memory than promised: %s',
    async (_, connections, networks, paths) => {
      const peakDuring = async (ms: number, work: () => Promise<unknown>, isEnough = () => true) => {
        let peak = 0;
        for (const until = performance.now() + ms; performance.now() < until || !isEnough(); ) {
          await work();
          peak = Math.max(peak, await megabytes());
          await new Promise((done) => setTimeout(done, 20));
        }
        return peak;
      };
      // Making answers takes memory, too, and V8 collects it late: the same answers, but read.
      const [target = ''] = paths;
      const idle = await megabytes();
      const readPeak = await peakDuring(phaseMs, () =>
        Promise.all(Array.from({ length: 10 }, (_, n) => read(`198.51.${n}.1`, target))),
      );
      const { counts, stop } = attack(connections, networks, paths);
      const statuses = new Set<number | undefined>();
      // At least until the limit has closed a connection, which takes longer beside other work.
      const unreadPeak = await peakDuring(
        2 * phaseMs,
        async () => statuses.add(await read('192.0.2.1')),
        () => counts.closed > 0,
      );
      stop();
      const figures = `${idle.toFixed()} MB idle, ${readPeak.toFixed()} read, ${unreadPeak.toFixed()} unread`;
      expect([...statuses]).toEqual([200]);
      expect(unreadPeak - readPeak, figures).toBeLessThan(promisedBytes / 2 ** 20 + tolerance);
    },
    400_000,
  );
});
