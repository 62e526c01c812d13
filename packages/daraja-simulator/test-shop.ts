// Test kit: a minimal shop that calls a simulator over HTTP and receives its messages.
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, vi } from 'vitest';
import { compactNairobiTime } from './ledger/nairobi-time.ts';
import { defaultCredentials, type SimulatorOptions } from './settings.ts';
import { type DarajaSimulator, startDarajaSimulator } from './simulator.ts';

type Callback = {
  MerchantRequestID: string;
  CheckoutRequestID: string;
  ResultCode: number | string;
  ResultDesc: string;
  CallbackMetadata?: { Item: { Name: string; Value?: number | string }[] };
};
type ReceivedCallback = {
  path: string;
  headers: IncomingHttpHeaders;
  raw: string;
  callback: Callback;
};
/** A validation, a confirmation or a result. */
// biome-ignore lint/suspicious/noExplicitAny: the tests read messages of many shapes.
export type ShopMessage = { path: string; fields: any };
// biome-ignore lint/suspicious/noExplicitAny: the tests read answers of many shapes.
export type Answer = { status: number; body: any; text: string };

export const phoneEndingIn = (ending: string) => `25471234${ending}`;
export const anyPhone = phoneEndingIn('5678');

/** Short delays that still keep events in a visible order. */
export const quick: SimulatorOptions = {
  decisionDelayMs: 30,
  lateSuccessDelayMs: 60,
  confirmationDelayMs: 0,
  resultDelayMs: 20,
  tooEarlyMs: 0,
  queryLimit: { requests: 1_000, perMs: 60_000 },
};

export async function call(url: string, init?: RequestInit): Promise<Answer> {
  const response = await fetch(url, init);
  const text = await response.text();
  const isJson = response.headers.get('content-type')?.includes('json') === true;
  return { status: response.status, body: isJson ? JSON.parse(text) : null, text };
}

export type TestShop = Awaited<ReturnType<typeof openShop>>;

/** A shop with its own simulator; `close` stops both. */
export async function openShop(options: SimulatorOptions = quick) {
  const received: ReceivedCallback[] = [];
  const shopMessages: ShopMessage[] = [];
  let validationAnswer = '{"ResultCode":"0","ResultDesc":"Accepted"}';
  let callbackStatus = 200;
  let callbackAnswerMs = 0;
  const receiver: Server = createServer(async (request, response) => {
    let raw = '';
    for await (const chunk of request) raw += chunk;
    const fields = JSON.parse(raw);
    if (!fields.Body) {
      shopMessages.push({ path: request.url ?? '', fields });
      response.end(validationAnswer);
      return;
    }
    const { Body } = fields as { Body: { stkCallback: Callback } };
    const entry = { path: request.url ?? '', headers: request.headers, raw, callback: Body.stkCallback };
    setTimeout(() => {
      received.push(entry);
      response.writeHead(callbackStatus).end();
    }, callbackAnswerMs);
  });
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
  const receiverUrl = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;

  let simulator: DarajaSimulator = await startDarajaSimulator(options);
  let token = '';

  function authorize(user: string, grantType = 'client_credentials', scheme = 'Basic') {
    return call(`${simulator.url}/oauth/v1/generate?grant_type=${grantType}`, {
      headers: { authorization: `${scheme} ${Buffer.from(user).toString('base64')}` },
    });
  }

  async function takeToken(): Promise<string> {
    const { consumerKey, consumerSecret } = defaultCredentials;
    token = (await authorize(`${consumerKey}:${consumerSecret}`)).body.access_token;
    return token;
  }

  function merchant(timestamp = compactNairobiTime(Date.now())) {
    const { shortcode, passkey } = defaultCredentials;
    return {
      BusinessShortCode: shortcode,
      Password: Buffer.from(shortcode + passkey + timestamp).toString('base64'),
      Timestamp: timestamp,
    };
  }

  function post(path: string, body: unknown, bearer = token): Promise<Answer> {
    return call(simulator.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
  }

  function push(changes: Record<string, unknown> = {}, bearer = token): Promise<Answer> {
    const phone = changes.PhoneNumber ?? anyPhone;
    return post(
      '/mpesa/stkpush/v1/processrequest',
      {
        ...merchant(),
        TransactionType: 'CustomerPayBillOnline',
        Amount: 951,
        PartyA: phone,
        PartyB: defaultCredentials.shortcode,
        PhoneNumber: phone,
        CallBackURL: `${receiverUrl}/notice/1`,
        AccountReference: 'JJ2611211234',
        TransactionDesc: 'Juice',
        ...changes,
      },
      bearer,
    );
  }

  function query(checkoutRequestId: unknown, changes: Record<string, unknown> = {}): Promise<Answer> {
    return post('/mpesa/stkpushquery/v1/query', {
      ...merchant(),
      CheckoutRequestID: checkoutRequestId,
      ...changes,
    });
  }

  function control(path: string, body: unknown = {}): Promise<Answer> {
    return post(`/simulator/${path}`, body);
  }

  async function ledger(): Promise<Answer['body']> {
    return (await call(`${simulator.url}/simulator/ledger`)).body;
  }

  await takeToken();
  return {
    receiverUrl,
    received,
    shopMessages,
    authorize,
    takeToken,
    merchant,
    post,
    push,
    query,
    control,
    ledger,
    get url() {
      return simulator.url;
    },
    answerCallbacksWith(status: number, afterMs = 0) {
      callbackStatus = status;
      callbackAnswerMs = afterMs;
    },
    answerValidationsWith(text: string) {
      validationAnswer = text;
    },
    registerUrls(changes: Record<string, unknown> = {}): Promise<Answer> {
      return post('/mpesa/c2b/v2/registerurl', {
        ShortCode: defaultCredentials.shortcode,
        ResponseType: 'Completed',
        ConfirmationURL: `${receiverUrl}/confirmation`,
        ValidationURL: `${receiverUrl}/validation`,
        ...changes,
      });
    },
    payByHand(changes: Record<string, unknown> = {}): Promise<Answer> {
      return control('payments', {
        phone: anyPhone,
        number: defaultCredentials.shortcode,
        amount: 951,
        reference: 'JJ2611211234',
        ...changes,
      });
    },
    /** Waits for this number of messages at a path and returns them. */
    receivesAt(path: string, count = 1): Promise<ShopMessage['fields'][]> {
      return vi.waitFor(
        () => {
          const found = shopMessages.filter((message) => message.path === path);
          expect(found).toHaveLength(count);
          return found.map(({ fields }) => fields);
        },
        { timeout: 20_000 },
      );
    },
    /** Pushes and returns the CheckoutRequestID. */
    async accepted(changes: Record<string, unknown> = {}): Promise<string> {
      const answer = await push(changes);
      expect(answer, answer.text).toMatchObject({ status: 200, body: { ResponseCode: '0' } });
      return answer.body.CheckoutRequestID;
    },
    /** Waits until the ledger has no open prompt and no unsent callback. */
    async settled(): Promise<Answer['body']> {
      return vi.waitFor(
        async () => {
          const page = await ledger();
          for (const prompt of page.prompts) {
            expect(prompt).toMatchObject({ state: 'decided', callbacksOutstanding: 0 });
          }
          return page;
        },
        { timeout: 20_000 },
      );
    },
    async restart(): Promise<void> {
      await simulator.close();
      simulator = await startDarajaSimulator(options);
      await takeToken();
    },
    async close(): Promise<void> {
      await simulator.close();
      await new Promise((resolve) => {
        receiver.close(resolve);
        receiver.closeAllConnections();
      });
    },
  };
}
