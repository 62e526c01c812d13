// Injected faults: scripts, maintenance windows, spike arrest, invalidated tokens.
import { afterEach, beforeEach, expect, test } from 'vitest';
import { merchantRefusals } from '../requests/daraja-errors.ts';
import { openShop, type TestShop } from '../test-shop.ts';

let shop: TestShop;
beforeEach(async () => {
  shop = await openShop();
});
afterEach(() => shop.close());

test('affects only the occurrences that a script names', async () => {
  await shop.control('faults', {
    script: [
      { target: 'queries', kind: 'busy', occurrences: [2] },
      { target: 'queries', kind: 'unavailable', occurrences: [3] },
      { target: 'queries', kind: 'empty-400', occurrences: [4] },
    ],
  });
  const statuses = [];
  for (let n = 1; n <= 5; n += 1) statuses.push((await shop.query('unknown')).body?.errorMessage ?? null);
  const unknown = 'The transaction does not Exist';
  expect(statuses).toEqual([unknown, 'The transaction is being processed', null, null, unknown]);
  expect((await shop.ledger()).faultsStruck).toMatchObject([
    { target: 'queries', fault: 'busy', occurrence: 2 },
    { target: 'queries', fault: 'unavailable', occurrence: 3 },
    { target: 'queries', fault: 'empty-400', occurrence: 4 },
  ]);
});

test('affects the same share of occurrences in every run with one seed', async () => {
  const run = async () => {
    await shop.control('faults', {
      script: [{ target: 'queries', kind: 'unavailable', share: 0.3, seed: 7 }],
    });
    const spoilt = [];
    for (let n = 1; n <= 60; n += 1) spoilt.push((await shop.query('unknown')).status === 503);
    return spoilt;
  };
  const first = await run();
  expect(await run()).toEqual(first);
  const share = first.filter(Boolean).length / first.length;
  expect(share).toBeGreaterThan(0.1);
  expect(share).toBeLessThan(0.5);
});

test.each([
  [{ script: {} }, 'A script is a list'],
  [{ script: [{ target: 'fires', kind: 'drop', share: 1 }] }, 'Line 1 of the script needs a target'],
  [{ script: [{ target: 'callbacks', kind: 'unavailable', share: 1 }] }, 'Line 1 of the script'],
  [{ script: [{ target: 'callbacks', kind: 'drop', share: 2 }] }, 'Line 1 of the script'],
  [{ pushes: { next: 1, kind: 'too-many', retryAfterS: -1 } }, 'pushes'],
  [{ pushes: { next: 1, kind: 'refuse' } }, 'pushes'],
  [{ pushes: { next: 1, kind: 'refuse', refusal: 'constructor' } }, 'pushes'],
])('%j is refused', async (body, words) => {
  const answer = await shop.control('faults', body);
  expect(answer.status).toBe(400);
  expect(answer.body.error).toContain(words);
});

test('answers every request with a web page during maintenance, without effects', async () => {
  await shop.control('maintenance', { inMs: 60_000, forMs: 60_000 });
  await shop.accepted();
  await shop.control('clock', { advanceMs: 60_000 });
  for (const answer of [await shop.push(), await shop.query('x'), await shop.authorize('a:b')]) {
    expect(answer).toMatchObject({ status: 503, body: null });
    expect(answer.text).toContain('<html>');
  }
  await shop.control('maintenance', { forMs: 60_000, status: 403 });
  expect((await shop.push()).text).toContain('Incapsula');
  await shop.control('clock', { advanceMs: 60_000 });
  await shop.settled();
  await shop.accepted();
  expect((await shop.settled()).prompts).toHaveLength(2);
  expect((await shop.control('maintenance', { forMs: 'long' })).status).toBe(400);
});

test('answers 429 with and without Retry-After', async () => {
  await shop.control('faults', { pushes: { next: 1, kind: 'too-many', retryAfterS: 7 } });
  const limited = await fetch(`${shop.url}/mpesa/stkpush/v1/processrequest`, { method: 'POST' });
  expect([limited.status, limited.headers.get('retry-after')]).toEqual([429, '7']);
  expect(await limited.text()).toContain('SpikeArrestViolation');
  await shop.control('faults', { pushes: { next: 1, kind: 'too-many' } });
  const other = await fetch(`${shop.url}/mpesa/stkpush/v1/processrequest`, { method: 'POST' });
  expect([other.status, other.headers.get('retry-after')]).toEqual([429, null]);
});

test.each(Object.entries(merchantRefusals))('refuses pushes by the cause %s', async (refusal, error) => {
  await shop.control('faults', { pushes: { next: 1, kind: 'refuse', refusal } });
  const { errorCode, errorMessage } = error;
  expect(await shop.push()).toMatchObject({ status: error.status, body: { errorCode, errorMessage } });
  await shop.accepted();
});

test('breaks a response although the prompt was sent', async () => {
  await shop.control('faults', { pushes: { next: 1, kind: 'spoil-answer' } });
  expect(await shop.push()).toMatchObject({ status: 500, body: null });
  expect((await shop.settled()).moneyMoved).toBe(951);
});

test('invalidates the token through the control API', async () => {
  await shop.control('tokens/invalidate');
  expect((await shop.push()).body.errorCode).toBe('404.001.03');
  await shop.takeToken();
  await shop.accepted();
  expect((await shop.ledger()).tokensMade).toBe(2);
});
