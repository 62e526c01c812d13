// Access tokens over HTTP.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { defaultCredentials } from '../settings.ts';
import { call, openShop, type TestShop } from '../test-shop.ts';

const ownUser = `${defaultCredentials.consumerKey}:${defaultCredentials.consumerSecret}`;
let shop: TestShop;
beforeAll(async () => {
  shop = await openShop();
});
afterAll(() => shop.close());

test('issues a token of 28 characters with a lifetime of 3599 seconds as a string', async () => {
  const answer = await shop.authorize(ownUser);
  expect(answer.status).toBe(200);
  expect(answer.body).toEqual({ access_token: expect.stringMatching(/^\w{28}$/), expires_in: '3599' });
});

test('invalidates a token when a new one is issued', async () => {
  const older = await shop.takeToken();
  const newer = await shop.takeToken();
  expect(await shop.push({}, older)).toMatchObject({
    status: 404,
    body: { errorCode: '404.001.03', errorMessage: 'Invalid Access Token', requestId: expect.any(String) },
  });
  expect((await shop.push({ Amount: 'nothing' }, newer)).body.errorMessage).toBe(
    'Bad Request - Invalid Amount',
  );
});

test('refuses a token after an hour', async () => {
  await shop.takeToken();
  await shop.control('clock', { advanceMs: 3_598_000 });
  expect((await shop.query('')).body.errorCode).toBe('400.002.02');
  await shop.control('clock', { advanceMs: 2_000 });
  expect((await shop.query('')).body.errorCode).toBe('404.001.03');
});

test('answers wrong credentials with 400 and no body', async () => {
  expect(await shop.authorize('someone:else')).toEqual({ status: 400, body: null, text: '' });
});

test('has separate codes for a wrong authentication type and a wrong grant type', async () => {
  expect(await shop.authorize(ownUser, 'client_credentials', 'Bearer')).toMatchObject({
    status: 400,
    body: { errorCode: '400.008.01' },
  });
  expect((await call(`${shop.url}/oauth/v1/generate`)).body.errorCode).toBe('400.008.01');
  expect(await shop.authorize(ownUser, 'password')).toMatchObject({
    status: 400,
    body: { errorCode: '400.008.02' },
  });
});

test('distinguishes a missing Authorization header from an unknown path', async () => {
  const push = await call(`${shop.url}/mpesa/stkpush/v1/processrequest`, { method: 'POST', body: '{}' });
  expect(push.body.errorCode).toBe('404.001.04');
  expect(await call(`${shop.url}/mpesa/nothing`)).toMatchObject({
    status: 404,
    body: { errorCode: '404.001.01' },
  });
  expect(await call(`${shop.url}/mpesa/stkpush/v1/processrequest`)).toMatchObject({
    status: 405,
    body: { errorCode: '405.001' },
  });
});
