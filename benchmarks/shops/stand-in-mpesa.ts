// A stand-in for M-PESA that decides nothing by itself: it accepts every prompt and reports its outcome when the benchmark says so.
// Shops of all commits use it as the simulator that another process has started (SIMULATOR_PORT).
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import {
  defaultCredentials,
  drawReceipt,
  type Fields,
  readPushRequest,
  withDefaults,
  writeCallbackBody,
} from '@jani-juice/daraja-simulator';

/** A prompt whose outcome has not been reported. */
export interface OpenPrompt {
  callbackUrl: string;
  /** Body of the callback that reports a payment. */
  paid: string;
}

export interface StandInMpesa {
  port: number;
  /** Prompts by the reference that the shop gives its customer. */
  prompts: Map<string, OpenPrompt>;
  close(): Promise<void>;
}

const settings = withDefaults({});
/** A few of the IP addresses that M-PESA sends callbacks from. */
const senders = ['196.201.214.200', '196.201.214.206', '196.201.213.114'];

/** Starts it on a free port. */
export async function startStandInMpesa(): Promise<StandInMpesa> {
  const prompts = new Map<string, OpenPrompt>();
  const receipts = new Set<string>();

  function openPrompt(fields: Fields): object {
    const at = Date.now();
    const receipt = drawReceipt(at, (drawn) => receipts.has(drawn));
    receipts.add(receipt);
    const ids = { merchantRequestId: randomUUID(), checkoutRequestId: `ws_CO_${randomUUID()}` };
    const reading = readPushRequest(fields, settings);
    if ('error' in reading) throw new Error(`a push is invalid: ${reading.error.errorMessage}`);
    const { push } = reading;
    const accepted = { ...push, ...ids, kind: 'push accepted' as const, at };
    const paid = writeCallbackBody(accepted, { at, resultCode: 0, receipt }, push.amount);
    prompts.set(ids.checkoutRequestId, { callbackUrl: push.callbackUrl, paid });
    return { MerchantRequestID: ids.merchantRequestId, CheckoutRequestID: ids.checkoutRequestId };
  }

  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    const path = request.url ?? '';
    const isQuery = path.startsWith('/mpesa/stkpushquery/');
    const answer = path.startsWith('/oauth/')
      ? { access_token: 'token', expires_in: '3599' }
      : isQuery
        ? { errorCode: '500.001.1001', errorMessage: 'The transaction is being processed' }
        : path.startsWith('/mpesa/stkpush/')
          ? openPrompt(JSON.parse(body))
          : {};
    response
      .writeHead(isQuery ? 500 : 200, { 'content-type': 'application/json' })
      .end(JSON.stringify({ ResponseCode: '0', ResponseDescription: 'Success', ...answer }));
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return {
    port: address.port,
    prompts,
    async close() {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
}

/** Sends the callback of a paid prompt once, as M-PESA does. Returns the status of the answer. */
export async function reportPaid({ callbackUrl, paid }: OpenPrompt): Promise<number> {
  const answer = await fetch(callbackUrl, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      businessshortcode: defaultCredentials.shortcode,
      'x-forwarded-for': senders[Math.floor(Math.random() * senders.length)] ?? '',
    },
    body: paid,
  });
  await answer.arrayBuffer();
  return answer.status;
}
