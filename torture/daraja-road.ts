// The road between the shop and the pretend Daraja: it tells of every question and answer, and can lose them.
import { type ClientRequest, createServer, type IncomingMessage, request as send } from 'node:http';
import { listenAnywhere } from './listen-anywhere.ts';

type DarajaCall = 'token' | 'push' | 'query' | 'reversal' | 'status' | 'other';

export interface DarajaMessage {
  call: DarajaCall;
  /** The port of the process that asks, where the message names it: a push and what staff ask for do. */
  port: number | null;
  /** The nine digits of the phone it is about; '' where it names none. */
  phone: string;
  /** `before`: it has not reached Daraja. `answered`: Daraja has done it, and the shop does not know yet. */
  moment: 'before' | 'answered';
}

/** What becomes of a message: it goes on, the connection breaks, or the shop gets this answer instead. */
export type DarajaFate = 'on' | 'lost' | { status: number; body: string; type?: string };

/** Where a process asks to be told. */
const ownAddress = /http:\/\/127\.0\.0\.1:(\d+)/;

export interface DarajaRoad {
  port: number;
  close(): Promise<void>;
}

/**
 * Opens a road.
 * @param simulatorUrl where it leads
 * @param noticeUrl the origin that M-PESA is told to send notices to, instead of the process's own: the way through the
 *   one public address
 * @param decide what becomes of each message
 */
export async function openDarajaRoad(
  simulatorUrl: string,
  noticeUrl: () => string,
  decide: (message: DarajaMessage) => DarajaFate = () => 'on',
): Promise<DarajaRoad> {
  const server = createServer(async (asked, answer) => {
    // The shop looks here whether a simulator runs already.
    if (asked.url?.startsWith('/simulator/')) {
      answer.writeHead(200, { 'content-type': 'application/json' }).end('{}');
      return;
    }
    const own = await read(asked).catch(() => '');
    const port = Number(ownAddress.exec(own)?.[1]) || null;
    const body = own.replaceAll(new RegExp(ownAddress, 'g'), noticeUrl());
    const message = { call: callOf(asked.url ?? ''), port, phone: phoneIn(body) };
    const before = decide({ ...message, moment: 'before' });
    if (before !== 'on') return meet(answer, before);
    const headers = { ...asked.headers, 'content-length': String(Buffer.byteLength(body)) };
    const onward: ClientRequest = send(
      `${simulatorUrl}${asked.url}`,
      { method: asked.method ?? 'GET', headers },
      async (reply) => {
        const text = await read(reply).catch(() => null);
        const after = decide({ ...message, moment: 'answered' });
        if (text === null) return meet(answer, 'lost');
        if (after !== 'on') return meet(answer, after);
        answer.writeHead(reply.statusCode ?? 502, { 'content-type': reply.headers['content-type'] ?? '' });
        answer.end(text);
      },
    );
    onward.on('error', () => meet(answer, 'lost'));
    onward.end(asked.method === 'GET' ? undefined : body);
  });
  server.keepAliveTimeout = 60_000;
  const { port, close } = await listenAnywhere(server);
  return {
    port,
    async close() {
      server.closeAllConnections();
      await close();
    },
  };
}

function meet(answer: import('node:http').ServerResponse, fate: Exclude<DarajaFate, 'on'>): void {
  if (fate === 'lost') answer.destroy();
  else answer.writeHead(fate.status, { 'content-type': fate.type ?? 'application/json' }).end(fate.body);
}

function callOf(path: string): DarajaCall {
  if (path.startsWith('/oauth/')) return 'token';
  if (path.startsWith('/mpesa/stkpush/')) return 'push';
  if (path.startsWith('/mpesa/stkpushquery/')) return 'query';
  if (path.startsWith('/mpesa/reversal/')) return 'reversal';
  if (path.startsWith('/mpesa/transactionstatus/')) return 'status';
  return 'other';
}

/** The nine digits of the phone that a message is about: requests name it, and M-PESA's request ids end in it. */
export function phoneIn(body: string): string {
  const named = /"(?:PhoneNumber|PartyA)":\s*"?254([17]\d{8})"?/.exec(body);
  const inId = /"CheckoutRequestID":\s*"ws_CO_\d{17}([17]\d{8})"/.exec(body);
  return named?.[1] ?? inId?.[1] ?? '';
}

/** The whole of a message. */
export async function read(message: IncomingMessage): Promise<string> {
  let text = '';
  message.setEncoding('utf8');
  for await (const chunk of message) text += chunk;
  return text;
}
