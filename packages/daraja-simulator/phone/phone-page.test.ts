// The phone page, and prompts that wait for it.
import { createHash } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { anyPhone, call, openShop, phoneEndingIn, quick, type TestShop } from '../test-shop.ts';

let shop: TestShop;
beforeEach(async () => {
  shop = await openShop();
});
afterEach(() => shop.close());

/** What an open page does every second. */
async function look(phone: string) {
  const answer = await call(`${shop.url}/simulator/prompts?screen=open&phone=${phone}`);
  return answer.body.prompts;
}

/** Pushes to an open phone and waits until the script would have decided long ago. */
async function promptOnOpenPhone(phone = anyPhone): Promise<string> {
  await look(phone);
  const checkoutRequestId = await shop.accepted({ PhoneNumber: phone });
  const other = phoneEndingIn('4444');
  await shop.accepted({ PhoneNumber: other });
  await vi.waitFor(
    async () => {
      const { prompts } = await shop.ledger();
      expect(prompts.find((prompt: { phone: string }) => prompt.phone === other).state).toBe('decided');
    },
    { timeout: 20_000 },
  );
  expect(await look(phone)).toMatchObject([{ checkoutRequestId, state: 'open', amount: 951 }]);
  return checkoutRequestId;
}

const callbackFor = (checkoutRequestId: string) =>
  vi.waitFor(
    () => {
      const found = shop.received.find(({ callback }) => callback.CheckoutRequestID === checkoutRequestId);
      if (!found) throw new Error('no callback yet');
      return found.callback;
    },
    { timeout: 20_000 },
  );

describe('a prompt on an open phone page waits for the person', () => {
  test('pays with any PIN', async () => {
    const id = await promptOnOpenPhone();
    const answer = await shop.control(`prompts/${id}/pin`, { pin: '1234' });
    expect(answer).toMatchObject({
      status: 200,
      body: { state: 'decided', resultCode: 0, decisions: [{ decidedBy: 'person', moneyMoved: 951 }] },
    });
    expect((await callbackFor(id)).ResultCode).toBe(0);
  });

  test('treats 0000 as a wrong PIN', async () => {
    const id = await promptOnOpenPhone();
    await shop.control(`prompts/${id}/pin`, { pin: '0000' });
    expect((await callbackFor(id)).ResultCode).toBe(2001);
  });

  test('cancels a declined prompt', async () => {
    const id = await promptOnOpenPhone();
    await shop.control(`prompts/${id}/decline`);
    expect((await callbackFor(id)).ResultCode).toBe(1032);
  });

  test('ends as unreachable without an answer in time', async () => {
    const id = await promptOnOpenPhone();
    await shop.control('clock', { advanceMs: 59_000 });
    expect(await look(anyPhone)).toMatchObject([{ state: 'open' }]);
    await shop.control('clock', { advanceMs: 1_000 });
    expect((await callbackFor(id)).ResultCode).toBe(1037);
    expect(await look(anyPhone)).toMatchObject([{ decisions: [{ decidedBy: 'timeout' }], moneyMoved: 0 }]);
  });

  test('follows the script of a scripted number', async () => {
    const id = await promptOnOpenPhone(phoneEndingIn('0001'));
    await shop.control(`prompts/${id}/pin`, { pin: '1234' });
    expect((await callbackFor(id)).ResultCode).toBe(1);
  });
});

test('accepts only the first of two answers to a prompt', async () => {
  const id = await promptOnOpenPhone();
  const answers = await Promise.all([
    shop.control(`prompts/${id}/pin`, { pin: '1234' }),
    shop.control(`prompts/${id}/decline`),
    shop.control(`prompts/${id}/pin`, { pin: '1234' }),
  ]);
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409]);
  const { prompts } = await shop.settled();
  expect(prompts[0].decisions).toHaveLength(1);
});

test('decides prompts by script again after the page stopped polling', async () => {
  await shop.close();
  shop = await openShop({ ...quick, screenOpenMs: 1 });
  await look(anyPhone);
  await shop.accepted();
  expect((await shop.settled()).prompts[0].decisions[0].decidedBy).toBe('script');
});

test('does not make prompts wait for a caller that only reads them', async () => {
  await call(`${shop.url}/simulator/prompts?phone=0712345678`);
  await shop.accepted();
  expect((await shop.settled()).moneyMoved).toBe(951);
});

test('distinguishes an invalid PIN, an unknown prompt and an unknown phone', async () => {
  const id = await promptOnOpenPhone();
  for (const pin of ['12', 'abcd', 1234, undefined]) {
    expect((await shop.control(`prompts/${id}/pin`, { pin })).status).toBe(400);
  }
  expect((await shop.control('prompts/ws_CO_1/pin', { pin: '1234' })).status).toBe(404);
  expect((await call(`${shop.url}/simulator/prompts?phone=hello`)).status).toBe(400);
});

test('rejects an answer from a foreign form', async () => {
  const id = await promptOnOpenPhone();
  const answer = await call(`${shop.url}/simulator/prompts/${id}/decline`, {
    method: 'POST',
    headers: { 'content-type': 'text/plain' },
    body: '{}',
  });
  expect(answer.status).toBe(415);
  expect(await look(anyPhone)).toMatchObject([{ state: 'open' }]);
});

describe('the pages', () => {
  test.each(['0712345678', '254712345678', '%2B254 712-345-678', '712345678'])(
    'know the phone %s',
    async (number) => {
      const { status, text } = await call(`${shop.url}/phone?number=${number}`);
      expect(status).toBe(200);
      expect(text).toContain('data-phone="254712345678"');
      expect(text).toContain('Simulator: no money moves');
      expect(text).toContain('1234');
    },
  );

  test('ask for a number when it is missing or invalid', async () => {
    expect(await call(`${shop.url}/phone`)).toMatchObject({ status: 200 });
    const wrong = await call(`${shop.url}/phone?number=${encodeURIComponent('"><script>alert(1)</script>')}`);
    expect(wrong.status).toBe(400);
    expect(wrong.text).toContain('That is not a Kenyan mobile number');
    expect(wrong.text).not.toContain('<script>alert');
  });

  test('describe the script of a scripted number', async () => {
    const { text } = await call(`${shop.url}/phone?number=0712349002`);
    expect(text).toContain('Paid, and the callback is sent three times');
  });

  test('list every ending on the index page', async () => {
    const { text } = await call(`${shop.url}/`);
    const endings = '0001 1001 1019 1025 1032 1037 2001 9001 9002 9003 9004 9005 9006 9007'.split(' ');
    for (const ending of endings) expect(text).toContain(`>${ending}</a>`);
  });

  test('allow only their own style and script', async () => {
    const response = await fetch(`${shop.url}/phone?number=0712345678`);
    const policy = response.headers.get('content-security-policy');
    const text = await response.text();
    expect(policy).toContain("default-src 'none'");
    for (const [tag, directive] of [
      ['style', 'style-src'],
      ['script', 'script-src'],
    ]) {
      const content = new RegExp(`<${tag}>([\\s\\S]*?)</${tag}>`).exec(text)?.[1] ?? '';
      const hash = createHash('sha256').update(content).digest('base64');
      expect(policy).toContain(`${directive} 'sha256-${hash}'`);
    }
  });
});
