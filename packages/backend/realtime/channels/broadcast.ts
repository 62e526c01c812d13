// A broadcast: its content, its frame in each protocol version, and its format between processes.
import {
  type BroadcastData,
  encodeBroadcast,
  encodeBroadcastText,
  SharedFrames,
} from '../connections/protocol.ts';

/** One message to all subscribers of a topic. */
export interface Broadcast {
  /** Without `realtime:`. */
  topic: string;
  isPrivate: boolean;
  event: string;
  data: BroadcastData;
  meta: Readonly<Record<string, unknown>> | null;
  /** Whether version 2 clients get a binary frame, as when it arrived as one. */
  isFramedBinary: boolean;
}

/**
 * The key of a topic's subscribers: public and private topics of one name are separate.
 */
export function audienceOf(topic: string, isPrivate: boolean): string {
  return `${isPrivate ? 'private' : 'public'}:${topic}`;
}

/** The topic of subscribers, without `realtime:`. */
export function topicOf(audience: string): string {
  return audience.slice(audience.indexOf(':') + 1);
}

/** Payload of a row of realtime.messages: bytes, or JSON text. */
export function storedData(json: string | null, bytes: Uint8Array | null): BroadcastData {
  return bytes ? { encoding: 'binary', bytes } : { encoding: 'json', text: json ?? 'null' };
}

/** Encodes a broadcast once for many sockets. */
export function framesOf({ topic: name, event, data, meta, isFramedBinary }: Broadcast): SharedFrames {
  const topic = `realtime:${name}`;
  return new SharedFrames((version) => {
    if (version === 2 && (isFramedBinary || data.encoding === 'binary')) {
      const frame = encodeBroadcast(topic, event, data, meta);
      if (frame) return frame;
    }
    return data.encoding === 'json' ? encodeBroadcastText(version, topic, event, data.text, meta) : null;
  });
}

/** Payload size in bytes. */
export function sizeOf({ data }: Pick<Broadcast, 'data'>): number {
  return data.encoding === 'json' ? Buffer.byteLength(data.text) : data.bytes.length;
}

/** Writes a broadcast as text for another process. */
export function packBroadcast(broadcast: Broadcast): string {
  const { data } = broadcast;
  const carried =
    data.encoding === 'json' ? { json: data.text } : { binary: Buffer.from(data.bytes).toString('base64') };
  return JSON.stringify({
    topic: broadcast.topic,
    private: broadcast.isPrivate,
    event: broadcast.event,
    framed: broadcast.isFramedBinary,
    ...(broadcast.meta ? { meta: broadcast.meta } : {}),
    ...carried,
  });
}

/** Reads what `packBroadcast` wrote. */
export function unpackBroadcast(packed: string): Broadcast {
  const { topic, private: isPrivate, event, framed, meta, json, binary } = JSON.parse(packed);
  return {
    topic,
    isPrivate,
    event,
    isFramedBinary: framed,
    meta: meta ?? null,
    data:
      json === undefined
        ? { encoding: 'binary', bytes: Buffer.from(binary, 'base64') }
        : { encoding: 'json', text: json },
  };
}
