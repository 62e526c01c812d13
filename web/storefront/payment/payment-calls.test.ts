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
  const asked: unknown[] = [];
  const functions = new FunctionsClient('http://shop.test/functions/v1', {
    customFetch: async (_url, init) => {
      asked.push(JSON.parse(String(init?.body)));
      return answer();
    },
  });
  return { functions, asked };
}

const refusal = (work: Promise<unknown>) =>
  work.then(
    () => null,
    (error: unknown) =>
      error instanceof PaymentRefusal ? { message: error.message, code: error.code } : error,
  );

test('initiating sends the phone, the total, the number and the order, and gives the request', async () => {
  const { functions, asked } = answering(() =>
    Response.json({ success: true, checkoutRequestId: 'ws_CO_1', chargeCents: 95100 }),
  );
  expect(await initiatePayment(functions, request)).toEqual({ paymentReference: 'ws_CO_1' });
  expect(asked).toEqual([{ action: 'initiate', ...request }]);
});

test('a server that never answers is given up after a minute, however many tries are left', async () => {
  vi.useFakeTimers();
  const asked: number[] = [];
  const functions = new FunctionsClient('http://shop.test/functions/v1', {
    customFetch: (_url, init) => {
      asked.push(performance.now());
      return new Promise((_, fail) =>
        init?.signal?.addEventListener('abort', () => fail(init.signal?.reason)),
      );
    },
  });
  const begun = performance.now();
  const given = refusal(initiatePayment(functions, request));
  await vi.advanceTimersByTimeAsync(60_000);
  expect(await given).toMatchObject({ message: 'Failed to initiate payment. Please try again. ⚠️' });
  expect(asked.map((at) => at - begun)).toEqual([0, 41_000]);
  vi.useRealTimers();
});

test('a prompt that is open on another phone is given with where it is', async () => {
  const { functions } = answering(() =>
    Response.json({ success: true, checkoutRequestId: 'ws_CO_1', promptedPhone: '0712 ••• •••' }),
  );
  const prompt = await initiatePayment(functions, request);
  expect(prompt).toEqual({ paymentReference: 'ws_CO_1', promptedPhone: '0712 ••• •••' });
  expect(advancePayment({ phase: 'initiating' }, { type: 'initiated', ...prompt })).toMatchObject(prompt);
});

test('a refusal is told in its own words, with its code', async () => {
  const { functions } = answering(() =>
    Response.json({ success: false, error: 'This order was cancelled', code: 'order_cancelled' }),
  );
  expect(await refusal(initiatePayment(functions, request))).toEqual({
    message: 'This order was cancelled',
    code: 'order_cancelled',
  });
});

test('a refusal without words, and an answer that is none, have the general ones', async () => {
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

test('a broken connection is asked over again, since it may have broken after the prompt was sent', async () => {
  let calls = 0;
  const { functions, asked } = answering(() => {
    calls += 1;
    return calls < 3
      ? Promise.reject(new TypeError('fetch failed'))
      : Response.json({ success: true, checkoutRequestId: 'ws_CO_1' });
  });
  expect(await initiatePayment(functions, request, [0, 0])).toEqual({ paymentReference: 'ws_CO_1' });
  expect(asked).toHaveLength(3);
});

test('a refusal is not asked over again', async () => {
  const { functions, asked } = answering(() => Response.json({ success: false, error: 'No' }));
  await refusal(initiatePayment(functions, request, [0, 0]));
  expect(asked).toHaveLength(1);
});

test('an answer with another status is told by the sentence in it', async () => {
  const { functions } = answering(() => Response.json({ error: 'Please slow down' }, { status: 429 }));
  expect(await refusal(initiatePayment(functions, request))).toEqual({
    message: 'Please slow down',
    code: null,
  });
});

test('checking gives status and result code', async () => {
  const { functions, asked } = answering(() =>
    Response.json({ payment: { status: 'failed', result_code: '1032' } }),
  );
  expect(await checkPayment(functions, 'ws_CO_1')).toEqual({ status: 'failed', resultCode: '1032' });
  expect(asked).toEqual([{ action: 'check-status', checkoutRequestId: 'ws_CO_1' }]);
});

test('checking throws when there is no status to be had', async () => {
  for (const answer of [
    () => Response.json({ error: 'Not found' }, { status: 404 }),
    () => Response.json({}),
    () => Promise.reject(new TypeError('fetch failed')),
  ]) {
    await expect(checkPayment(answering(answer).functions, 'ws_CO_1')).rejects.toThrow();
  }
});

test('a question that hangs is given up, so that the next one can be asked', async () => {
  vi.useFakeTimers();
  const functions = new FunctionsClient('http://shop.test/functions/v1', {
    customFetch: (_url, init) =>
      new Promise((_, reject) => {
        init?.signal?.addEventListener('abort', () => reject(init.signal?.reason));
      }),
  });
  const asked = expect(checkPayment(functions, 'ws_CO_1')).rejects.toThrow();
  await vi.advanceTimersByTimeAsync(10_000);
  await asked;
  vi.useRealTimers();
});

test('while prompts are paused the order may still be paid by hand; what is wrong with the order itself is not', () => {
  expect(isPromptFailure(new PaymentRefusal('M-PESA prompts do not work right now', 'prompts_paused'))).toBe(
    true,
  );
  expect(isPromptFailure(new PaymentRefusal('This order was cancelled', 'order_cancelled'))).toBe(false);
});
