import { FunctionsClient } from '@supabase/functions-js';
import { expect, test, vi } from 'vitest';
import { checkPayment, initiatePayment, isPromptFailure, PaymentRefusal } from './payment-calls.ts';
import { advancePayment } from './payment-machine.ts';

const request = {
  phoneNumber: '0712345678',
  amount: 95100,
  trackingNumber: 'JJ-20261121-1234',
  orderId: 'order-1',
};

function answering(answer: () => Response | Promise<Response>) {
  const requests: unknown[] = [];
  const functions = new FunctionsClient('http://shop.test/functions/v1', {
    customFetch: async (_url, init) => {
      requests.push(JSON.parse(String(init?.body)));
      return answer();
    },
  });
  return { functions, requests };
}

const refusal = (work: Promise<unknown>) =>
  work.then(
    () => null,
    (error: unknown) =>
      error instanceof PaymentRefusal ? { message: error.message, code: error.code } : error,
  );

test('initiating sends phone, total, tracking number and order, and returns the request id', async () => {
  const { functions, requests } = answering(() =>
    Response.json({ success: true, checkoutRequestId: 'ws_CO_1', chargeCents: 95100 }),
  );
  expect(await initiatePayment(functions, request)).toEqual({ paymentReference: 'ws_CO_1' });
  expect(requests).toEqual([{ action: 'initiate', ...request }]);
});

test.each([
  [{ success: false, error: 'Prompts do not work', code: '404.001.03', endedBy: 'owner' }, true],
  [{ success: false, error: 'Busy', code: '500.001.1001', endedBy: 'customer' }, false],
  [{ success: false, error: 'New', code: '999', endedBy: 'unknown' }, false],
  [{ success: false, error: 'No such order', code: 'order_not_found' }, false],
])('%j is a problem of the shop: %s', async (answer, isShopProblem) => {
  const { functions } = answering(() => Response.json(answer));
  await expect(initiatePayment(functions, request)).rejects.toMatchObject({ isShopProblem });
});

test('gives up on a server without an answer after a minute, even with retries left', async () => {
  vi.useFakeTimers();
  const requests: number[] = [];
  const functions = new FunctionsClient('http://shop.test/functions/v1', {
    customFetch: (_url, init) => {
      requests.push(performance.now());
      return new Promise((_, fail) =>
        init?.signal?.addEventListener('abort', () => fail(init.signal?.reason)),
      );
    },
  });
  const begun = performance.now();
  const given = refusal(initiatePayment(functions, request));
  await vi.advanceTimersByTimeAsync(60_000);
  expect(await given).toMatchObject({ message: 'Failed to initiate payment. Please try again. ⚠️' });
  expect(requests.map((at) => at - begun)).toEqual([0, 41_000]);
  vi.useRealTimers();
});

test('returns the masked phone of a prompt that is open on another phone', async () => {
  const { functions } = answering(() =>
    Response.json({ success: true, checkoutRequestId: 'ws_CO_1', promptedPhone: '0712 ••• •••' }),
  );
  const prompt = await initiatePayment(functions, request);
  expect(prompt).toEqual({ paymentReference: 'ws_CO_1', promptedPhone: '0712 ••• •••' });
  expect(advancePayment({ phase: 'initiating' }, { type: 'initiated', ...prompt })).toMatchObject(prompt);
});

test('a refusal has the server’s message and code', async () => {
  const { functions } = answering(() =>
    Response.json({ success: false, error: 'This order was cancelled', code: 'order_cancelled' }),
  );
  expect(await refusal(initiatePayment(functions, request))).toEqual({
    message: 'This order was cancelled',
    code: 'order_cancelled',
  });
});

test('a refusal without a message and an invalid answer have the general message', async () => {
  const { functions } = answering(() => Response.json({ success: false }));
  expect(await refusal(initiatePayment(functions, request))).toEqual({
    message: 'Failed to initiate payment',
    code: null,
  });
  for (const answer of [
    () => new Response('<h1>Bad gateway</h1>', { status: 502 }),
    () => Promise.reject(new TypeError('fetch failed')),
  ]) {
    expect(await refusal(initiatePayment(answering(answer).functions, request, [0, 0]))).toEqual({
      message: 'Failed to initiate payment. Please try again. ⚠️',
      code: 'no_answer',
    });
  }
});

test('retries after a broken connection, because the prompt may have been sent', async () => {
  let calls = 0;
  const { functions, requests } = answering(() => {
    calls += 1;
    return calls < 3
      ? Promise.reject(new TypeError('fetch failed'))
      : Response.json({ success: true, checkoutRequestId: 'ws_CO_1' });
  });
  expect(await initiatePayment(functions, request, [0, 0])).toEqual({ paymentReference: 'ws_CO_1' });
  expect(requests).toHaveLength(3);
});

test('does not retry after a refusal', async () => {
  const { functions, requests } = answering(() => Response.json({ success: false, error: 'No' }));
  await refusal(initiatePayment(functions, request, [0, 0]));
  expect(requests).toHaveLength(1);
});

test('an error response has the message of its body', async () => {
  const { functions } = answering(() => Response.json({ error: 'Please slow down' }, { status: 429 }));
  expect(await refusal(initiatePayment(functions, request))).toEqual({
    message: 'Please slow down',
    code: null,
  });
});

test('checking returns status and result code', async () => {
  const { functions, requests } = answering(() =>
    Response.json({ payment: { status: 'failed', result_code: '1032' } }),
  );
  expect(await checkPayment(functions, 'ws_CO_1')).toEqual({ status: 'failed', resultCode: '1032' });
  expect(requests).toEqual([{ action: 'check-status', checkoutRequestId: 'ws_CO_1' }]);
});

test.each(['pending', 'initiating', 'a_new_status', 'toString'])(
  'the status %j counts as pending',
  async (status) => {
    const { functions } = answering(() => Response.json({ payment: { status, result_code: null } }));
    expect(await checkPayment(functions, 'ws_CO_1')).toEqual({ status: 'pending', resultCode: null });
  },
);

test('checking throws without a status', async () => {
  for (const answer of [
    () => Response.json({ error: 'Not found' }, { status: 404 }),
    () => Response.json({}),
    () => Promise.reject(new TypeError('fetch failed')),
  ]) {
    await expect(checkPayment(answering(answer).functions, 'ws_CO_1')).rejects.toThrow();
  }
});

test('a stalled check times out, so that the next one can start', async () => {
  vi.useFakeTimers();
  const functions = new FunctionsClient('http://shop.test/functions/v1', {
    customFetch: (_url, init) =>
      new Promise((_, reject) => {
        init?.signal?.addEventListener('abort', () => reject(init.signal?.reason));
      }),
  });
  const check = expect(checkPayment(functions, 'ws_CO_1')).rejects.toThrow();
  await vi.advanceTimersByTimeAsync(10_000);
  await check;
  vi.useRealTimers();
});

test('paused prompts allow payment by hand; errors of the order itself do not', () => {
  expect(isPromptFailure(new PaymentRefusal('M-PESA prompts do not work right now', 'prompts_paused'))).toBe(
    true,
  );
  expect(isPromptFailure(new PaymentRefusal('This order was cancelled', 'order_cancelled'))).toBe(false);
});
