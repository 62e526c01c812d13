// Responses to queries, and their rate limit.
import { afterEach, expect, test } from 'vitest';
import { openShop, phoneEndingIn, quick, type TestShop } from '../test-shop.ts';

let shop: TestShop;
afterEach(() => shop.close());
const undecided = { ...quick, decisionDelayMs: 60_000 };

test('alternates between two pending responses, then returns the result as a string', async () => {
  shop = await openShop(undecided);
  const checkoutRequestId = await shop.accepted();
  const is4999 = {
    status: 200,
    body: { ResponseCode: '0', ResultCode: '4999', CheckoutRequestID: checkoutRequestId },
  };
  const isProcessed = {
    status: 500,
    body: { errorCode: '500.001.1001', errorMessage: 'The transaction is being processed' },
  };
  expect(await shop.query(checkoutRequestId)).toMatchObject(is4999);
  expect(await shop.query(checkoutRequestId)).toMatchObject(isProcessed);
  expect(await shop.query(checkoutRequestId)).toMatchObject(is4999);

  await shop.control('clock', { advanceMs: 60_000 });
  const { prompts } = await shop.settled();
  expect(prompts[0].queries).toBe(3);
  expect(await shop.query(checkoutRequestId)).toMatchObject({
    status: 200,
    body: {
      ResponseCode: '0',
      MerchantRequestID: prompts[0].merchantRequestId,
      CheckoutRequestID: checkoutRequestId,
      ResultCode: '0',
      ResultDesc: 'The service request is processed successfully.',
    },
  });
});

test('rejects a CheckoutRequestID as invalid right after its push', async () => {
  shop = await openShop({ ...undecided, tooEarlyMs: 1_000 });
  const checkoutRequestId = await shop.accepted();
  expect(await shop.query(checkoutRequestId)).toMatchObject({
    status: 400,
    body: { errorCode: '400.002.02', errorMessage: 'Bad Request - Invalid CheckoutRequestID' },
  });
  await shop.control('clock', { advanceMs: 1_000 });
  expect((await shop.query(checkoutRequestId)).body.ResultCode).toBe('4999');
});

test('describes one result differently in query and callback', async () => {
  shop = await openShop();
  const checkoutRequestId = await shop.accepted({ PhoneNumber: phoneEndingIn('1037') });
  await shop.settled();
  expect((await shop.query(checkoutRequestId)).body.ResultDesc).toBe('DS timeout user cannot be reached.');
  expect(shop.received[0]?.callback.ResultDesc).toBe('No response from user.');
});

test('distinguishes an unknown transaction, a missing id and wrong credentials', async () => {
  shop = await openShop();
  expect(await shop.query('ws_CO_03112023191535369729993680')).toMatchObject({
    status: 500,
    body: { errorCode: '500.001.1001', errorMessage: 'The transaction does not Exist' },
  });
  expect(await shop.query(undefined)).toMatchObject({ status: 400, body: { errorCode: '400.002.02' } });
  expect((await shop.query('x', { Password: 'x' })).body.errorMessage).toBe('Wrong credentials');
});

test('answers the sixth query within a minute with the gateway error', async () => {
  shop = await openShop({ ...undecided, queryLimit: { requests: 5, perMs: 60_000 } });
  const first = await shop.accepted();
  const second = await shop.accepted({ PhoneNumber: phoneEndingIn('1111') });
  for (const id of [first, second, first, second, first]) expect((await shop.query(id)).status).not.toBe(429);
  const answer = await shop.query(second);
  expect(answer.status).toBe(429);
  expect(answer.body.fault.detail.errorcode).toBe('policies.ratelimit.SpikeArrestViolation');
  expect(answer.body.fault.faultstring).toContain('messagesPerPeriod=5, periodInMicroseconds=60000000');
  expect((await shop.ledger()).queriesTurnedAway).toBe(1);

  await shop.control('clock', { advanceMs: 60_000 });
  expect((await shop.query(second)).status).not.toBe(429);
});

test('admits evenly spread queries one by one', async () => {
  shop = await openShop({ ...undecided, queryLimit: { requests: 5, perMs: 60_000, evenly: true } });
  const id = await shop.accepted();
  expect((await shop.query(id)).status).toBe(200);
  expect((await shop.query(id)).status).toBe(429);
  await shop.control('clock', { advanceMs: 12_000 });
  expect((await shop.query(id)).body.errorCode).toBe('500.001.1001');
});
