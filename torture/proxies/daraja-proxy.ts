// Proxy between the shop and the Daraja simulator that can drop or replace requests and answers.
import { type ClientRequest, createServer, type IncomingMessage, request as send } from 'node:http';
import { listenOnFreePort } from './listen-on-free-port.ts';

type DarajaCall = 'token' | 'push' | 'query' | 'reversal' | 'status' | 'other';

export interface DarajaMessage {
  call: DarajaCall;
  /** Port of the requesting process if the message contains it, as pushes and requests of staff do. */
  port: number | null;
  /** The phone's nine digits; '' without one. */
  phone: string;
  /** `before`: not received by Daraja. `answered`: processed by Daraja, not received by the shop. */
  moment: 'before' | 'answered';
}

/** Forward the message, break the connection, or answer the shop with this. */
export type DarajaAction = 'forward' | 'drop' | { status: number; body: string; type?: string };

/** A process's own callback URL. */
const ownAddress = /http:\/\/127\.0\.0\.1:(\d+)/;

export interface DarajaProxy {
  port: number;
  close(): Promise<void>;
}

/**
 * Starts the proxy.
 * @param simulatorUrl its target
 * @param callbackUrl origin of the callback proxy, which replaces the process's own in requests
 * @param decide returns the action for each message
 */
export async function openDarajaProxy(
  simulatorUrl: string,
  callbackUrl: () => string,
  decide: (message: DarajaMessage) => DarajaAction = () => 'forward',
): Promise<DarajaProxy> {
  const server = createServer(async (request, answer) => {
    // The shop checks here whether a simulator runs already.
    if (request.url?.startsWith('/simulator/')) {
      answer.writeHead(200, { 'content-type': 'application/json' }).end('{}');
      return;
    }
    const own = await read(request).catch(() => '');
    const port = Number(ownAddress.exec(own)?.[1]) || null;
    const body = own.replaceAll(new RegExp(ownAddress, 'g'), callbackUrl());
    const message = { call: callOf(request.url ?? ''), port, phone: phoneIn(body) };
    const before = decide({ ...message, moment: 'before' });
    if (before !== 'forward') return apply(answer, before);
    const headers = { ...request.headers, 'content-length': String(Buffer.byteLength(body)) };
    const onward: ClientRequest = send(
      `${simulatorUrl}${request.url}`,
      { method: request.method ?? 'GET', headers },
      async (reply) => {
        const text = await read(reply).catch(() => null);
        const after = decide({ ...message, moment: 'answered' });
        if (text === null) return apply(answer, 'drop');
        if (after !== 'forward') return apply(answer, after);
        answer.writeHead(reply.statusCode ?? 502, { 'content-type': reply.headers['content-type'] ?? '' });
        answer.end(text);
      },
    );
    onward.on('error', () => apply(answer, 'drop'));
    onward.end(request.method === 'GET' ? undefined : body);
  });
  server.keepAliveTimeout = 60_000;
  const { port, close } = await listenOnFreePort(server);
  return {
    port,
    async close() {
      server.closeAllConnections();
      await close();
    },
  };
}

function apply(answer: import('node:http').ServerResponse, action: Exclude<DarajaAction, 'forward'>): void {
  if (action === 'drop') answer.destroy();
  else
    answer.writeHead(action.status, { 'content-type': action.type ?? 'application/json' }).end(action.body);
}

function callOf(path: string): DarajaCall {
  if (path.startsWith('/oauth/')) return 'token';
  if (path.startsWith('/mpesa/stkpush/')) return 'push';
  if (path.startsWith('/mpesa/stkpushquery/')) return 'query';
  if (path.startsWith('/mpesa/reversal/')) return 'reversal';
  if (path.startsWith('/mpesa/transactionstatus/')) return 'status';
  return 'other';
}

/** The nine digits of a message's phone: requests contain it, and M-PESA's request ids end with it. */
export function phoneIn(body: string): string {
  const named = /"(?:PhoneNumber|PartyA)":\s*"?254([17]\d{8})"?/.exec(body);
  const inId = /"CheckoutRequestID":\s*"ws_CO_\d{17}([17]\d{8})"/.exec(body);
  return named?.[1] ?? inId?.[1] ?? '';
}

/** Reads the whole body. */
export async function read(message: IncomingMessage): Promise<string> {
  let text = '';
  message.setEncoding('utf8');
  for await (const chunk of message) text += chunk;
  return text;
}
