// The framing, against the official client's own serializer.
import { RealtimeClient } from '@supabase/realtime-js';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import {
  decodeBinary,
  decodeText,
  encodeBroadcast,
  encodeBroadcastText,
  encodeText,
  MalformedFrame,
  type Message,
  versionOf,
} from './protocol.ts';

const { serializer } = new RealtimeClient('ws://localhost', {
  params: { apikey: 'key' },
  transport: WebSocket as never,
});

const ascii = (maxLength: number) =>
  fc.string({ unit: 'binary-ascii', maxLength }).filter((text) => text.length <= maxLength);
const reference = fc.option(ascii(20), { nil: null });
const json = fc.jsonValue({ maxDepth: 3 });
const message = fc.record<Message>({
  joinRef: reference,
  ref: reference,
  topic: fc.string({ unit: 'grapheme' }),
  event: fc.string(),
  payload: fc.dictionary(fc.string(), json),
});
const alike = (value: unknown) => JSON.parse(JSON.stringify(value));

describe('text frames', () => {
  test('are decoded unchanged in both versions', () => {
    fc.assert(
      fc.property(message, fc.constantFrom(1 as const, 2 as const), (sent, version) => {
        expect(decodeText(version, encodeText(version, sent))).toEqual(alike(sent));
      }),
    );
  });

  test('are malformed when they cannot be encoded again', () => {
    const endless = `{"topic":"a","event":"b","payload":${'['.repeat(20_000)}${']'.repeat(20_000)}}`;
    expect(() => decodeText(1, endless)).toThrow(MalformedFrame);
  });

  test('are understood by the official client', () => {
    fc.assert(
      fc.property(message, (sent) => {
        serializer.decode(encodeText(2, sent), (got: unknown) => {
          const { joinRef, ...rest } = alike(sent);
          expect(got).toEqual({ join_ref: joinRef, ...rest });
        });
      }),
    );
  });

  test("carry the user's JSON unchanged", () => {
    const frame = encodeBroadcastText(1, 'realtime:a', 'up', '{"n": 1.50}', { id: 'x' });
    expect(frame).toContain('{"n": 1.50}');
    expect(decodeText(1, frame)).toMatchObject({
      event: 'broadcast',
      payload: { type: 'broadcast', event: 'up', payload: { n: 1.5 }, meta: { id: 'x' } },
    });
  });

  test.each(['', 'null', '{}', '[]', '[null,"1","realtime:a","phx_join"]', '[1,2,3,4,5]', 'phx', '"x"'])(
    'that read %s are refused',
    (text) => {
      expect(() => decodeText(2, text)).toThrow(MalformedFrame);
      expect(() => decodeText(1, text)).toThrow(MalformedFrame);
    },
  );
});

describe('binary frames', () => {
  test('of the official client are read, with JSON or bytes inside', () => {
    const inside = fc.oneof(json, fc.uint8Array({ maxLength: 500 }));
    fc.assert(
      fc.property(
        ascii(255),
        ascii(255),
        ascii(255),
        reference,
        inside,
        (topic, event, joinRef, ref, data) => {
          const payload = {
            type: 'broadcast',
            event,
            payload: data instanceof Uint8Array ? data.slice().buffer : data,
          };
          serializer.encode({ topic, event: 'broadcast', ref, join_ref: joinRef, payload }, (frame) => {
            const got = decodeBinary(new Uint8Array(frame as ArrayBuffer));
            expect(got).toMatchObject({
              topic,
              userEvent: event,
              joinRef: joinRef || null,
              ref: ref || null,
            });
            if (data instanceof Uint8Array) expect(got.data).toMatchObject({ encoding: 'binary' });
            const back = got.data.encoding === 'json' ? JSON.parse(got.data.text) : got.data.bytes;
            expect(back).toEqual(data instanceof Uint8Array ? data : alike(data ?? {}));
          });
        },
      ),
    );
  });

  test('are decoded by the official client', () => {
    const text = fc.string({ unit: 'grapheme', maxLength: 30 });
    fc.assert(
      fc.property(text, text, json, (topic, event, value) => {
        const frame = encodeBroadcast(
          topic,
          event,
          { encoding: 'json', text: JSON.stringify(value) },
          { id: 'x' },
        );
        const buffer = new Uint8Array(frame ?? []).buffer;
        serializer.decode(buffer, (got: { topic: string; payload: unknown }) => {
          expect(got.topic).toBe(topic);
          expect(got.payload).toEqual({ type: 'broadcast', event, payload: alike(value), meta: { id: 'x' } });
        });
      }),
    );
  });

  test('are not written when a name is too long for its field', () => {
    expect(encodeBroadcast('é'.repeat(128), 'up', { encoding: 'json', text: '1' }, null)).toBeNull();
    expect(encodeBroadcast('é'.repeat(127), 'up', { encoding: 'json', text: '1' }, null)).not.toBeNull();
  });

  test('of any bytes are read or rejected, never misread', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        try {
          expect(decodeBinary(bytes).topic).toBeTypeOf('string');
        } catch (error) {
          expect(error).toBeInstanceOf(MalformedFrame);
        }
      }),
      { numRuns: 500 },
    );
  });

  test.each([
    ['of another kind', [0, 0, 0, 0, 0, 0, 0]],
    ['truncated', [3, 0, 0, 9, 0, 0, 1, 65]],
    ['with bytes that are not UTF-8', [3, 0, 0, 1, 0, 0, 1, 255, 49]],
    ['with invalid JSON', [3, 0, 0, 1, 0, 0, 1, 65, 123]],
    ['of an unknown encoding', [3, 0, 0, 1, 0, 0, 7, 65, 49]],
  ])('%s are refused', (_, bytes) => {
    expect(() => decodeBinary(new Uint8Array(bytes))).toThrow(MalformedFrame);
  });
});

test.each([
  [null, 1],
  ['1.0.0', 1],
  ['2.0.0', 2],
  ['3.0.0', null],
  ['2', null],
])('the requested version %s is read as %s', (vsn, version) => {
  expect(versionOf(vsn)).toBe(version);
});
