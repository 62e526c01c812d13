// The control API: faults, clock, ledger, and closing the simulator.
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { startDarajaSimulator } from './simulator.ts';
import { call, openShop, phoneEndingIn, quick, type TestShop } from './test-shop.ts';

let shop: TestShop;
beforeEach(async () => {
  shop = await openShop();
});
afterEach(() => shop.close());

test('answers the next pushes with the firewall page, then as usual', async () => {
  await shop.control('faults', { pushes: { next: 2, kind: 'forbidden-html' } });
  for (const _ of [1, 2]) {
    const answer = await shop.push();
    expect(answer).toMatchObject({ status: 403, body: null });
    expect(answer.text).toContain('Incapsula');
  }
  expect((await shop.ledger()).prompts).toEqual([]);
  await shop.accepted();
});

test('injects unavailable, busy and dropped connections without an effect', async () => {
  await shop.control('faults', { pushes: { next: 1, kind: 'unavailable' } });
  expect((await shop.push()).status).toBe(503);
  await shop.control('faults', { queries: { next: 1, kind: 'busy' } });
  expect((await shop.query('x')).body.errorMessage).toBe('The transaction is being processed');
  await shop.control('faults', {
    pushes: { next: 1, kind: 'drop-connection' },
    tokens: { next: 1, kind: 'drop-connection' },
  });
  await expect(shop.push()).rejects.toThrow('fetch failed');
  await expect(shop.authorize('a:b')).rejects.toThrow('fetch failed');
  expect((await shop.ledger()).prompts).toEqual([]);
});

test('pays a prompt whose response was lost', async () => {
  await shop.control('faults', { pushes: { next: 1, kind: 'lose-answer' } });
  await expect(shop.push()).rejects.toThrow('fetch failed');
  expect((await shop.settled()).moneyMoved).toBe(951);
});

test('sends a delayed response after the callback', async () => {
  await shop.control('faults', { pushes: { next: 1, kind: 'delay', delayMs: 60_000 } });
  const answer = shop.push();
  await vi.waitFor(() => expect(shop.received).toHaveLength(1), { timeout: 20_000 });
  await shop.control('clock', { advanceMs: 60_000 });
  expect((await answer).body.CheckoutRequestID).toBe(shop.received[0]?.callback.CheckoutRequestID);
});

test('drops, duplicates and delays callbacks', async () => {
  await shop.control('faults', { callbacks: { next: 1, kind: 'drop' } });
  await shop.accepted();
  await shop.settled();
  expect(shop.received).toHaveLength(0);

  await shop.control('faults', { callbacks: { next: 1, kind: 'duplicate', times: 4 } });
  await shop.accepted();
  await shop.settled();
  expect(shop.received).toHaveLength(4);

  await shop.control('faults', { callbacks: { next: 1, kind: 'delay', delayMs: 600_000 } });
  await shop.accepted();
  await vi.waitFor(async () => expect((await shop.ledger()).moneyMoved).toBe(3 * 951), { timeout: 20_000 });
  expect((await shop.ledger()).prompts[2].callbacksOutstanding).toBe(1);
  await shop.control('clock', { advanceMs: 600_000 });
  await shop.settled();
  expect(shop.received).toHaveLength(5);
});

test('rejects an invalid fault and names the valid ones', async () => {
  for (const body of [
    {},
    { pushes: { next: 1, kind: 'fire' } },
    { callbacks: { next: -1, kind: 'drop' } },
    { moon: {} },
  ]) {
    const answer = await shop.control('faults', body);
    expect(answer.status).toBe(400);
    expect(answer.body.error).toEqual(expect.any(String));
  }
  expect((await call(`${shop.url}/simulator/faults`)).body).toEqual({
    tokens: null,
    pushes: null,
    queries: null,
    registrations: null,
    statements: null,
    reversals: null,
    statuses: null,
    callbacks: null,
    confirmations: null,
    results: null,
    lines: null,
    reversalResults: null,
    statusResults: null,
    script: [],
  });
});

test('advances the clock only forward', async () => {
  expect((await shop.control('clock', { advanceMs: -1 })).status).toBe(400);
  expect((await shop.control('clock', { advanceMs: 'a day' })).status).toBe(400);
});

test('filters the ledger by phone and by reference', async () => {
  await shop.accepted({ AccountReference: 'JJ1' });
  await shop.accepted({ AccountReference: 'JJ2', PhoneNumber: phoneEndingIn('1111'), Amount: 10 });
  await shop.settled();
  const byPhone = await call(`${shop.url}/simulator/ledger?phone=0712341111`);
  expect(byPhone.body).toMatchObject({ moneyMoved: 10, prompts: [{ accountReference: 'JJ2' }] });
  const byReference = await call(`${shop.url}/simulator/ledger?reference=JJ1`);
  expect(byReference.body).toMatchObject({ moneyMoved: 951, prompts: [{ accountReference: 'JJ1' }] });
});

test('clears prompts, tokens, faults and the clock on a reset', async () => {
  await shop.control('faults', { pushes: { next: 9, kind: 'unavailable' } });
  await shop.control('clock', { advanceMs: 3_600_000 });
  await shop.control('reset');
  expect((await shop.push()).body.errorCode).toBe('404.001.03');
  await shop.takeToken();
  await shop.accepted();
  const page = await shop.settled();
  expect(page.prompts).toHaveLength(1);
  expect(Math.abs(page.now - Date.now())).toBeLessThan(60_000);
});

test('neither answers nor sends callbacks after it is closed', async () => {
  const own = await openShop({ ...quick, decisionDelayMs: 60_000 });
  await own.accepted();
  const { url } = own;
  const slow = fetch(`${url}/simulator/ledger`).catch(() => undefined);
  await own.close();
  await slow;
  await expect(fetch(url)).rejects.toThrow('fetch failed');
  expect(own.received).toHaveLength(0);
});

test('does not start on a port in use', async () => {
  const { port } = new URL(shop.url);
  await expect(startDarajaSimulator({ ...quick, port: Number(port) })).rejects.toThrow('EADDRINUSE');
});
