import { afterEach, expect, test, vi } from 'vitest';
import { createStore } from '../../supabase/store.ts';
import type { OutgoingMessages } from '../messages/messages.ts';
import type { Log } from '../monitoring/log.ts';
import { readConfig } from '../start/settings/config.ts';
import { createDueJobs, whenDue } from './due-jobs.ts';
import { type Job, startJobs } from './jobs.ts';
import { shopJobs } from './shop-jobs.ts';

afterEach(() => {
  vi.useRealTimers();
});

const log = { info() {}, warn() {}, error() {} } as unknown as Log;

/** A project that answers each call with the given jobs. */
function openProject(dueJobs: (busy: string[]) => string[]) {
  const requests: string[] = [];
  const answer: typeof fetch = async (input, init) => {
    const request = new Request(input, init);
    const { pathname } = new URL(request.url);
    requests.push(pathname);
    if (pathname.endsWith('/claim_due_jobs')) return Response.json(dueJobs((await request.json()).busy));
    return Response.json(pathname.endsWith('/lease_messages') ? [] : 0);
  };
  return {
    requests,
    store: createStore({ url: 'https://project.example', key: 'secret' }, { fetch: answer }),
  };
}

test('makes fewer than 35,000 requests a day while there is nothing to do', async () => {
  vi.useFakeTimers();
  const simulatedMs = 20 * 60_000;
  const begun = Date.now();
  let lastClaim = 0;
  const everyTenMinutes = () => {
    if (Date.now() - lastClaim < 600_000) return [];
    lastClaim = Date.now();
    return [
      'query-open',
      'send-refunds',
      'take-up-till',
      'pull-statement',
      'expire-reservations',
      'send-messages',
    ];
  };
  const { requests, store } = openProject(everyTenMinutes);
  const config = readConfig(
    {
      SUPABASE_URL: 'https://project.example',
      SUPABASE_PUBLISHABLE_KEY: 'publishable',
      SUPABASE_SECRET_KEY: 'secret',
      MPESA_ENV: 'sandbox',
    },
    '/nowhere',
  );
  const jobs = await shopJobs({
    config,
    store,
    database: null,
    root: '/nowhere',
    buildFiles: null,
    messages: {} as OutgoingMessages,
    usesSimulator: false,
    storefrontToken: 'token',
    log,
    onError: () => {},
    onUnavailable: () => {},
  });
  const stop = startJobs(jobs, log);
  await vi.advanceTimersByTimeAsync(simulatedMs);
  await stop();
  expect(Date.now() - begun).toBeGreaterThanOrEqual(simulatedMs);
  expect(requests).toContain('/functions/v1/mobile-money');
  expect(requests.filter((path) => path.endsWith('/claim_due_jobs')).length).toBeGreaterThan(350);
  expect((requests.length * 86_400_000) / simulatedMs).toBeLessThan(35_000);
});

test('runs a job within three seconds after its work came, and no other', async () => {
  vi.useFakeTimers();
  let due: string[] = [];
  const { store } = openProject(() => due.splice(0));
  const runs: string[] = [];
  const dueJobs = createDueJobs(store.tables);
  const job = (name: string): Job => whenDue(dueJobs, name, { name, run: async () => void runs.push(name) });
  const stop = startJobs([job('a'), job('b')], log);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(runs).toEqual([]);
  due = ['b'];
  await vi.advanceTimersByTimeAsync(3100);
  expect(runs).toEqual(['b']);
  await vi.advanceTimersByTimeAsync(10_000);
  await stop();
  expect(runs).toEqual(['b']);
});

test('leaves a job that still runs to other processes', async () => {
  vi.useFakeTimers();
  const asked: string[][] = [];
  let runs = 0;
  const { store } = openProject((busy) => {
    asked.push(busy);
    return busy.includes('a') || runs === 2 ? [] : ['a'];
  });
  const dueJobs = createDueJobs(store.tables);
  const slow = whenDue(dueJobs, 'a', {
    name: 'a',
    run: async () => {
      runs += 1;
      await new Promise((done) => setTimeout(done, 20_000));
    },
  });
  const stop = startJobs([slow, whenDue(dueJobs, 'b', { name: 'b', run: async () => {} })], log);
  await vi.advanceTimersByTimeAsync(15_000);
  expect([runs, asked.slice(0, 3)]).toEqual([1, [[], ['a'], ['a']]]);
  await vi.advanceTimersByTimeAsync(15_000);
  expect(runs).toBe(2);
  await vi.advanceTimersByTimeAsync(30_000);
  await stop();
});

test('does not claim a job again that it has not begun yet', async () => {
  vi.useFakeTimers();
  const asked: string[][] = [];
  const { store } = openProject((busy) => {
    asked.push(busy);
    return asked.length === 1 ? ['a', 'b'] : [];
  });
  const dueJobs = createDueJobs(store.tables);
  const runs: string[] = [];
  const run = (name: string) => dueJobs.runIfDue(name, async () => runs.push(name));
  await run('a');
  await vi.advanceTimersByTimeAsync(3000);
  await run('a');
  await run('b');
  expect([asked, runs]).toEqual([
    [[], ['b']],
    ['a', 'b'],
  ]);
});

test('fails each job while the database does not answer, and asks again', async () => {
  let isUp = false;
  const down: typeof fetch = async () =>
    isUp ? Response.json(['a']) : Response.json({ message: 'unavailable' }, { status: 503 });
  const { tables } = createStore({ url: 'https://project.example', key: 'secret' }, { fetch: down });
  vi.useFakeTimers();
  const dueJobs = createDueJobs(tables);
  const runs: string[] = [];
  const run = (name: string) => dueJobs.runIfDue(name, async () => runs.push(name));
  await expect(run('a')).rejects.toThrow('unavailable');
  await expect(run('b')).rejects.toThrow('unavailable');
  isUp = true;
  await vi.advanceTimersByTimeAsync(3000);
  await run('a');
  expect(runs).toEqual(['a']);
});
