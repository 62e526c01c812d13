// Broadcasts over HTTP, for senders that hold no socket: several at once as JSON, or one with any body.
import type { Caller } from '../../caller.ts';
import { isUnavailable, retryAfterSeconds } from '../../database/database.ts';
import { QueueFull } from '../../limits/fair-queue.ts';
import { visitorOf } from '../../limits/fair-share.ts';
import { networksOf } from '../../limits/network.ts';
import { isStorable, isStorableText } from '../../storable.ts';
import {
  knownRightsToSend,
  queriesForRights,
  type Rights,
  writeRights,
} from '../connections/authorization.ts';
import { isRecord } from '../connections/protocol.ts';
import { audienceOf, type Broadcast, sizeOf } from './broadcast.ts';
import { storingUnsupported } from './channel.ts';
import { broadcastToAll, costOf, type Hub } from './channels.ts';

const batchPath = /\/api\/broadcast\/?$/;
const singlePath = /\/api\/broadcast\/([^/]+)\/events\/([^/]+)\/?$/;
/** Maximum bytes of a name: binary frames have one byte for the length of a topic or an event. */
const maxEventBytes = 255;
const maxTopicBytes = maxEventBytes - 'realtime:'.length;
const bytesPerCall = 16 * 1024;

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
 * @returns 202 once the messages are delivered here, and also when the caller may not send to a private topic; 403 when it may
 *   not send to a public one; 413 and 429 above a limit
 */
export async function answerBroadcastRequest(hub: Hub, request: Request, caller: Caller): Promise<Response> {
  const { pathname } = new URL(request.url);
  // The secret key belongs to the operator: only the total limits apply to it.
  const isOperator = caller.claims.role === 'service_role';
  const networks = isOperator || caller.address === null ? [] : networksOf(caller.address);
  const count = (calls: number) => {
    if (!hub.shared.calls.take(networks, calls)) throw tooMany('You have exceeded your rate limit');
  };
  try {
    const single = singlePath.exec(pathname);
    if (!single && !batchPath.test(pathname)) throw new RequestRefused(404, { error: 'Not found' });
    if (request.method !== 'POST') throw new RequestRefused(405, { error: 'Method not allowed' });
    const announced = Number(request.headers.get('content-length') ?? 0);
    if (announced > hub.limits.requestBytes) throw tooLarge();
    count(1 + announced / bytesPerCall);
    const body = await readBody(request, hub.limits.requestBytes);
    // A chunked body has no declared length.
    if (body.length > announced) count((body.length - announced) / bytesPerCall);
    const broadcasts = single
      ? [readSingle(request, nameOf(single[1], maxTopicBytes), nameOf(single[2], maxEventBytes), body)]
      : readBatch(body, hub.limits.messagesPerRequest);
    if (broadcasts.some((broadcast) => sizeOf(broadcast) > hub.limits.payloadBytes)) throw tooLarge();
    const permitted = await selectPermitted(hub, caller, broadcasts, {
      headers: Object.fromEntries(request.headers),
      networks,
      count,
    });
    const cost = permitted.reduce((sum, broadcast) => sum + costOf(hub, broadcast), 0);
    if (!hub.shared.deliveries.take(networks, cost))
      throw tooMany('Too many messages to broadcast, please reduce the batch size');
    for (const broadcast of permitted) await broadcastToAll(hub, broadcast);
    return new Response(null, { status: 202 });
  } catch (error) {
    if (error instanceof RequestRefused) return Response.json(error.body, { status: error.status });
    if (error instanceof QueueFull)
      return Response.json({ message: 'You have exceeded your rate limit' }, { status: 429 });
    hub.onError(error);
    if (isUnavailable(error)) {
      const headers = { 'retry-after': retryAfterSeconds };
      return Response.json({ error: 'The database is not available right now' }, { status: 503, headers });
    }
    return Response.json({ error: 'Internal server error' }, { status: 500 });
  }
}

function readSingle(request: Request, topic: string, event: string, body: Buffer): Broadcast {
  const { searchParams } = new URL(request.url);
  if (
    ['persist', 'persist[ttl]'].some((name) => searchParams.has(name) && searchParams.get(name) !== 'false')
  )
    throw new RequestRefused(400, { error: storingUnsupported });
  const isPrivate = searchParams.get('private') === 'true';
  const type = (request.headers.get('content-type') ?? '').split(';')[0]?.trim().toLowerCase();
  const common = { topic, event, isPrivate, meta: null, isFramedBinary: true };
  if (type === 'application/octet-stream')
    return { ...common, data: { encoding: 'binary', bytes: new Uint8Array(body) } };
  if (type !== 'application/json') throw new RequestRefused(415, { error: 'Unsupported media type' });
  const text = body.toString();
  if (parseJson(text) === undefined) throw unreadable({ payload: ['is not valid JSON'] });
  return { ...common, data: { encoding: 'json', text } };
}

function readBatch(body: Buffer, most: number): Broadcast[] {
  const request = parseJson(body.toString());
  const messages = isRecord(request) ? request.messages : undefined;
  if (!Array.isArray(messages)) throw unreadable({ messages: [`can't be blank`] });
  if (messages.length > most) throw tooMany('Too many messages to broadcast, please reduce the batch size');
  if (!isStorable(request, () => true)) throw unreadable({ messages: ['is nested too deeply'] });
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
  const { topic, event, payload, persist } = isRecord(message) ? message : ({} as Record<string, unknown>);
  return {
    ...(persist ? { persist: ['is not supported'] } : {}),
    ...problemOf('topic', topic, maxTopicBytes),
    ...problemOf('event', event, maxEventBytes),
    ...(isRecord(payload) ? {} : { payload: [payload === undefined ? `can't be blank` : 'is invalid'] }),
  };
}

function problemOf(field: string, name: unknown, longest: number): Record<string, string[]> {
  if (typeof name !== 'string' || name === '') return { [field]: [`can't be blank`] };
  if (Buffer.byteLength(name) > longest) return { [field]: [`should be at most ${longest} byte(s)`] };
  return isStorableText(name) ? {} : { [field]: ['is invalid'] };
}

/**
 * Filters the broadcasts that the caller may send; drops those to private topics that it may not send to.
 * @throws RequestRefused when it may not send to a public topic
 */
async function selectPermitted(
  hub: Hub,
  { claims }: Caller,
  broadcasts: readonly Broadcast[],
  {
    headers,
    networks,
    count,
  }: { headers: Record<string, string>; networks: readonly string[]; count: (calls: number) => void },
): Promise<Broadcast[]> {
  const rightsByTopic = new Map<string, Rights>();
  const permitted: Broadcast[] = [];
  for (const broadcast of broadcasts) {
    const { topic, isPrivate } = broadcast;
    const audience = audienceOf(topic, isPrivate);
    let rights = rightsByTopic.get(audience) ?? null;
    if (!rights) {
      const question = { claims, topic, isPrivate, headers };
      rights = knownRightsToSend(hub, question);
      if (!rights) {
        count(queriesForRights);
        rights = await hub.queue.run(visitorOf(networks), () => writeRights(hub.database, question));
      }
      rightsByTopic.set(audience, rights);
    }
    if (rights.broadcast) permitted.push(broadcast);
    else if (!isPrivate)
      throw new RequestRefused(403, { message: 'You do not have permissions to send to public topics' });
  }
  return permitted;
}

function nameOf(part: string | undefined, longest: number): string {
  let name = '';
  try {
    name = decodeURIComponent(part ?? '');
  } catch {
    // Not a name then: refused below.
  }
  if (name === '' || Buffer.byteLength(name) > longest || !isStorableText(name))
    throw unreadable({ topic: ['is invalid'] });
  return name;
}

async function readBody(request: Request, most: number): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of request.body ?? []) {
    size += chunk.length;
    if (size > most) throw tooLarge();
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

function tooLarge(): RequestRefused {
  return new RequestRefused(413, { error: 'Payload too large' });
}

function tooMany(message: string): RequestRefused {
  return new RequestRefused(429, { message });
}

function unreadable(errors: Record<string, unknown>): RequestRefused {
  return new RequestRefused(422, { errors });
}
