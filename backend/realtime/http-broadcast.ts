// Broadcasts over HTTP, for senders that hold no socket: several at once as JSON, or one with any body.
import type { Caller } from '../caller.ts';
import { isKeepable, isKeepableText } from '../keepable.ts';
import { writeRights } from './authorization.ts';
import type { Broadcast } from './broadcast.ts';
import { broadcastToAll, type Hub } from './channels.ts';
import { isRecord } from './protocol.ts';

const batchPath = /\/api\/broadcast\/?$/;
const singlePath = /\/api\/broadcast\/([^/]+)\/events\/([^/]+)\/?$/;
const longestName = 255 - 'realtime:'.length;

/** A request that is answered with an error. */
class RequestRefused extends Error {
  readonly status: number;
  readonly body: unknown;
  constructor(status: number, body: unknown) {
    super(`refused with ${status}`);
    this.status = status;
    this.body = body;
  }
}

/**
 * Answers the HTTP API of broadcasts.
 * @returns 202 when the request was understood, whether or not the caller may send to a private topic
 */
export async function answerBroadcastRequest(hub: Hub, request: Request, caller: Caller): Promise<Response> {
  const { pathname } = new URL(request.url);
  try {
    const single = singlePath.exec(pathname);
    if (!single && !batchPath.test(pathname)) throw new RequestRefused(404, { error: 'Not found' });
    if (request.method !== 'POST') throw new RequestRefused(405, { error: 'Method not allowed' });
    const body = await readBody(request, hub.limits.requestBytes);
    const broadcasts = single
      ? [readSingle(request, nameOf(single[1]), nameOf(single[2]), body)]
      : readBatch(body);
    await sendPermitted(hub, caller, broadcasts, Object.fromEntries(request.headers));
    return new Response(null, { status: 202 });
  } catch (error) {
    if (error instanceof RequestRefused) return Response.json(error.body, { status: error.status });
    hub.onFault(error);
    return Response.json({ error: 'Internal server error' }, { status: 500 });
  }
}

function readSingle(request: Request, topic: string, event: string, body: Buffer): Broadcast {
  const isPrivate = new URL(request.url).searchParams.get('private') === 'true';
  const type = (request.headers.get('content-type') ?? '').split(';')[0]?.trim().toLowerCase();
  const common = { topic, event, isPrivate, meta: null, isFramedBinary: true };
  if (type === 'application/octet-stream')
    return { ...common, data: { encoding: 'binary', bytes: new Uint8Array(body) } };
  if (type !== 'application/json') throw new RequestRefused(415, { error: 'Unsupported media type' });
  const text = body.toString();
  if (parseJson(text) === undefined) throw unreadable({ payload: ['is not valid JSON'] });
  return { ...common, data: { encoding: 'json', text } };
}

function readBatch(body: Buffer): Broadcast[] {
  const request = parseJson(body.toString());
  if (!isKeepable(request, () => true)) throw unreadable({ messages: ['is nested too deeply'] });
  const messages = isRecord(request) ? request.messages : undefined;
  if (!Array.isArray(messages)) throw unreadable({ messages: [`can't be blank`] });
  const problems = messages.map(problemsOf);
  if (problems.some((problem) => Object.keys(problem).length > 0)) throw unreadable({ messages: problems });
  return messages.map((message: { topic: string; event: string; payload: unknown; private?: unknown }) => ({
    topic: message.topic,
    event: message.event,
    isPrivate: message.private === true,
    data: { encoding: 'json', text: JSON.stringify(message.payload) },
    meta: null,
    isFramedBinary: false,
  }));
}

function problemsOf(message: unknown): Record<string, string[]> {
  const { topic, event, payload } = isRecord(message) ? message : ({} as Record<string, unknown>);
  const isName = (value: unknown) => typeof value === 'string' && value !== '' && isKeepableText(value);
  return {
    ...(isName(topic) ? {} : { topic: [`can't be blank`] }),
    ...(isName(event) ? {} : { event: [`can't be blank`] }),
    ...(isRecord(payload) ? {} : { payload: [payload === undefined ? `can't be blank` : 'is invalid'] }),
  };
}

async function sendPermitted(
  hub: Hub,
  { claims }: Caller,
  broadcasts: readonly Broadcast[],
  headers: Record<string, string>,
): Promise<void> {
  const mayWrite = new Map<string, boolean>();
  for (const broadcast of broadcasts) {
    const { topic, isPrivate } = broadcast;
    if (isPrivate && !mayWrite.has(topic))
      mayWrite.set(topic, (await writeRights(hub.database, { claims, topic, headers })).broadcast);
    if (!isPrivate || mayWrite.get(topic)) broadcastToAll(hub, broadcast);
  }
}

function nameOf(part: string | undefined): string {
  let name = '';
  try {
    name = decodeURIComponent(part ?? '');
  } catch {
    // Not a name then: refused below.
  }
  if (name === '' || !isKeepableText(name) || Buffer.byteLength(name) > longestName)
    throw unreadable({ topic: ['is invalid'] });
  return name;
}

async function readBody(request: Request, most: number): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of request.body ?? []) {
    size += chunk.length;
    if (size > most) throw new RequestRefused(413, { error: 'Payload too large' });
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function unreadable(errors: Record<string, unknown>): RequestRefused {
  return new RequestRefused(422, { errors });
}
