import { createFairShare } from '@jani-juice/backend/limits';
import { expect, test } from 'vitest';
import { createSharedFetch, jobCalls, paymentCalls } from './shared-calls.ts';

test('queries of one network use at most half of the places and do not delay other networks or the shop', async () => {
  const { work } = createFairShare('pglite');
  const started: string[] = [];
  let release = () => {};
  const released = new Promise<void>((done) => {
    release = done;
  });
  const fetchPayment = createSharedFetch(work, paymentCalls, async (request) => {
    started.push(new Request(request).headers.get('x-visitor-address') ?? 'the shop');
    await released;
    return new Response('done');
  });
  const query = (address?: string) =>
    fetchPayment('http://shop.example/rest/v1/rpc/find_payment', {
      headers: address ? { 'x-visitor-address': address } : {},
    });
  const flood = Array.from({ length: 30 }, () => query('192.0.2.1'));
  const others = [query('198.51.100.1'), query()];
  await expect.poll(() => started).toHaveLength(4);
  expect(started.toSorted()).toEqual(['192.0.2.1', '192.0.2.1', '198.51.100.1', 'the shop']);

  release();
  for (const answer of await Promise.all([...flood, ...others])) expect(await answer.text()).toBe('done');
  expect(started).toHaveLength(32);
});

test('a query of a disconnected client does not run', async () => {
  const { work } = createFairShare('pglite');
  let queries = 0;
  const fetchPayment = createSharedFetch(work, paymentCalls, async () => {
    queries += 1;
    return new Response();
  });
  const url = 'http://shop.example/rest/v1/rpc/begin_payment';
  await expect(fetchPayment(url, { signal: AbortSignal.abort() })).rejects.toThrow('disconnected');
  expect(queries).toBe(0);
  await fetchPayment(url, { signal: new AbortController().signal });
  expect(queries).toBe(1);
});

test('a call of a job waits for its turn, however long', async () => {
  const { work } = createFairShare('pglite');
  let release = () => {};
  const released = new Promise<void>((done) => {
    release = done;
  });
  const fetchPayment = createSharedFetch(work, paymentCalls, async () => {
    await released;
    return new Response();
  });
  const fetchAsJob = createSharedFetch(work, jobCalls, async () => new Response('done'));
  const url = 'http://shop.example/rest/v1/rpc/claim_due_jobs';
  const others = Array.from({ length: 20 }, () => fetchPayment(url));
  const deadline = new AbortController();
  const job = fetchAsJob(url, { signal: deadline.signal });
  const payment = fetchPayment(url, { signal: deadline.signal });
  await expect.poll(() => work.queued).toBeGreaterThan(1);
  deadline.abort();
  await expect(payment, 'a client that has disconnected leaves').rejects.toThrow('disconnected');
  release();
  expect(await (await job).text()).toBe('done');
  await Promise.all(others);
});

test('calls of jobs leave others most starts', async () => {
  const { work } = createFairShare('pglite');
  const started: string[] = [];
  const fetchAs = (name: string, calls: typeof jobCalls) =>
    createSharedFetch(work, calls, async () => {
      started.push(name);
      await new Promise((done) => setImmediate(done));
      return new Response();
    });
  const [asJob, asPayment] = [fetchAs('job', jobCalls), fetchAs('payment', paymentCalls)];
  const url = 'http://shop.example/rest/v1/rpc/begin_message';
  await Promise.all([
    ...Array.from({ length: 100 }, () => asJob(url)),
    ...Array.from({ length: 50 }, () => asPayment(url)),
  ]);
  const lastPayment = started.lastIndexOf('payment');
  expect(started.slice(0, lastPayment).filter((name) => name === 'job').length).toBeLessThan(20);
});
