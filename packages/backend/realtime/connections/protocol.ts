// The frames on the wire: Phoenix's text messages in both versions, and the binary frames of user broadcasts. Pure.

import { isStorable } from '../../storable.ts';

/** Protocol versions: 1 frames messages as objects, 2 as arrays and may use binary frames. */
export type Version = 1 | 2;

/** One message of the Phoenix protocol. */
export interface Message {
  joinRef: string | null;
  ref: string | null;
  topic: string;
  event: string;
  payload: unknown;
}

/** A user's payload: JSON as the text it arrived as, or bytes. */
export type BroadcastData = { encoding: 'json'; text: string } | { encoding: 'binary'; bytes: Uint8Array };

/** A binary frame of kind 3: a client's broadcast. */
export interface PushedBroadcast {
  joinRef: string | null;
  ref: string | null;
  topic: string;
  userEvent: string;
  /** Whether the message is to be stored for later replay (`persist`). */
  isToBeStored: boolean;
  data: BroadcastData;
}

/** A frame as it is sent: as bytes, so that one copy serves all sockets. */
export interface Frame {
  bytes: Buffer;
  isBinary: boolean;
}

/** One message for many sockets, encoded once per version. */
export class SharedFrames {
  readonly #encode: (version: Version) => string | Buffer | null;
  readonly #frames = new Map<Version, Frame | null>();

  /** @param encode writes a text frame or a binary one; null where the version cannot carry the message */
  constructor(encode: (version: Version) => string | Buffer | null) {
    this.#encode = encode;
  }

  /** The frame for a version; null when that version cannot carry it. */
  for(version: Version): Frame | null {
    let frame = this.#frames.get(version);
    if (frame === undefined) {
      const encoded = this.#encode(version);
      frame =
        encoded === null
          ? null
          : {
              bytes: Buffer.isBuffer(encoded) ? encoded : Buffer.from(encoded),
              isBinary: Buffer.isBuffer(encoded),
            };
      this.#frames.set(version, frame);
    }
    return frame;
  }
}

/** A frame that does not follow the protocol. */
export class MalformedFrame extends Error {
  override readonly name = 'MalformedFrame';
}

const kinds = { push: 3, broadcast: 4 };
const encodings = { binary: 0, json: 1 };
const maxFieldBytes = 255;
const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Reads the protocol version a client asks for.
 * @param vsn the query parameter; absent means 1.0.0
 * @returns null for an unsupported version
 */
export function versionOf(vsn: string | null): Version | null {
  if (vsn === null || vsn === '') return 1;
  if (/^1\.\d+\.\d+$/.test(vsn)) return 1;
  return /^2\.\d+\.\d+$/.test(vsn) ? 2 : null;
}

/**
 * Reads a text frame.
 * @throws MalformedFrame when it is not JSON or has an unexpected shape
 */
export function decodeText(version: Version, text: string): Message {
  const frame = parseJson(text);
  const fields =
    version === 1
      ? isRecord(frame) && [frame.join_ref, frame.ref, frame.topic, frame.event, frame.payload]
      : Array.isArray(frame) && frame.length === 5 && frame;
  if (!fields) throw new MalformedFrame(`not a message of version ${version}`);
  const [joinRef, ref, topic, event, payload] = fields as unknown[];
  if (typeof topic !== 'string' || typeof event !== 'string')
    throw new MalformedFrame('a message needs a topic and an event');
  for (const name of [joinRef, ref, topic, event]) {
    if (typeof name === 'string' && name.length > maxFieldBytes)
      throw new MalformedFrame('a name is too long');
  }
  // Values that are only forwarded may contain any characters.
  if (!isStorable(payload, () => true)) throw new MalformedFrame('nested too deeply');
  return { joinRef: reference(joinRef), ref: reference(ref), topic, event, payload: payload ?? {} };
}

/** Writes a text frame. */
export function encodeText(version: Version, message: Message): string {
  return frameText(version, message, JSON.stringify(message.payload ?? {}));
}

/**
 * Writes the text frame of a JSON user broadcast without parsing its payload.
 * @param topic the full topic, with `realtime:`
 * @param json the payload, as JSON text
 * @param joinRef join reference of the receiving channel; null for several channels
 */
export function encodeBroadcastText(
  version: Version,
  topic: string,
  event: string,
  json: string,
  meta: Readonly<Record<string, unknown>> | null,
  joinRef: string | null = null,
): string {
  const payload = `{"type":"broadcast","event":${JSON.stringify(event)},"payload":${json}${meta ? `,"meta":${JSON.stringify(meta)}` : ''}}`;
  return frameText(version, { joinRef, ref: null, topic, event: 'broadcast' }, payload);
}

/** A table change for many sockets: clients with equal subscriptions share its frame. */
export class ChangeFrames {
  readonly #json: string;
  readonly #frames = new Map<string, Frame>();

  /** @param json the change, as JSON text */
  constructor(json: string) {
    this.#json = json;
  }

  /**
   * @param topic the full topic, with `realtime:`
   * @param ids the subscriptions it is for
   */
  for(version: Version, topic: string, ids: readonly number[]): Frame {
    const key = `${version} ${ids.join(',')} ${topic}`;
    let frame = this.#frames.get(key);
    if (!frame) {
      const payload = `{"ids":${JSON.stringify(ids)},"data":${this.#json}}`;
      const text = frameText(
        version,
        { joinRef: null, ref: null, topic, event: 'postgres_changes' },
        payload,
      );
      frame = { bytes: Buffer.from(text), isBinary: false };
      this.#frames.set(key, frame);
    }
    return frame;
  }
}

/**
 * Reads a binary frame: kind 3, the only one clients send.
 * @throws MalformedFrame for another kind, a truncated frame, invalid UTF-8 or an invalid JSON payload
 */
export function decodeBinary(frame: Uint8Array): PushedBroadcast {
  const [kind, joinRefSize, refSize, topicSize, eventSize, metadataSize, encoding] = frame;
  if (kind !== kinds.push) throw new MalformedFrame(`unknown kind of binary frame: ${kind}`);
  const sizes = [joinRefSize, refSize, topicSize, eventSize, metadataSize];
  let offset = 7;
  const fields = sizes.map((size) => {
    const start = offset;
    offset += size ?? 0;
    return readUtf8(frame.subarray(start, offset));
  });
  if (frame.length < offset) throw new MalformedFrame('a truncated binary frame');
  const [joinRef = '', ref = '', topic = '', userEvent = '', metadata = ''] = fields;
  const bytes = frame.subarray(offset);
  let data: BroadcastData;
  if (encoding === encodings.binary) data = { encoding: 'binary', bytes };
  else if (encoding === encodings.json) {
    const text = readUtf8(bytes);
    parseJson(text);
    data = { encoding: 'json', text };
  } else throw new MalformedFrame(`unknown encoding: ${encoding}`);
  const given = metadata === '' ? null : parseJson(metadata);
  const isToBeStored = isRecord(given) && Boolean(given.persist);
  return { joinRef: joinRef || null, ref: ref || null, topic, userEvent, isToBeStored, data };
}

/**
 * Writes a binary frame of kind 4: a broadcast to a client of version 2.
 * @param topic the full topic, with `realtime:`
 * @returns null when a field is longer than the frame's 255 bytes
 */
export function encodeBroadcast(
  topic: string,
  userEvent: string,
  data: BroadcastData,
  meta: Readonly<Record<string, unknown>> | null,
): Buffer | null {
  const fields = [topic, userEvent, meta ? JSON.stringify(meta) : ''].map((text) => Buffer.from(text));
  if (fields.some((field) => field.length > maxFieldBytes)) return null;
  const encoding = data.encoding === 'json' ? encodings.json : encodings.binary;
  const payload = data.encoding === 'json' ? Buffer.from(data.text) : data.bytes;
  const header = Buffer.from([kinds.broadcast, ...fields.map((field) => field.length), encoding]);
  return Buffer.concat([header, ...fields, payload]);
}

function frameText(version: Version, message: Omit<Message, 'payload'>, payloadJson: string): string {
  const [joinRef, ref, topic, event] = [message.joinRef, message.ref, message.topic, message.event].map(
    (field) => JSON.stringify(field),
  );
  return version === 1
    ? `{"topic":${topic},"event":${event},"payload":${payloadJson},"ref":${ref},"join_ref":${joinRef}}`
    : `[${joinRef},${ref},${topic},${event},${payloadJson}]`;
}

/** Whether a value is a JSON object. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function reference(value: unknown): string | null {
  return typeof value === 'string' ? value : typeof value === 'number' ? String(value) : null;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new MalformedFrame('not JSON', { cause: error });
  }
}

function readUtf8(bytes: Uint8Array): string {
  try {
    return strictUtf8.decode(bytes);
  } catch (error) {
    throw new MalformedFrame('not UTF-8', { cause: error });
  }
}
