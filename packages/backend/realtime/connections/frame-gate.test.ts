import { Duplex } from 'node:stream';
import { expect, test } from 'vitest';
import { FrameCounter, FrameGate } from './frame-gate.ts';

/** A masked frame as clients send it. */
function frameOf(payloadBytes: number): Buffer {
  const mask = Buffer.alloc(4);
  const payload = Buffer.alloc(payloadBytes, 0x81);
  if (payloadBytes < 126) return Buffer.concat([Buffer.from([0x81, 0x80 | payloadBytes]), mask, payload]);
  const length = Buffer.alloc(payloadBytes < 65_536 ? 2 : 8);
  length.writeUIntBE(payloadBytes, Math.max(0, length.length - 6), Math.min(6, length.length));
  return Buffer.concat([Buffer.from([0x82, length.length === 2 ? 0xfe : 0xff]), length, mask, payload]);
}

const lengths = [0, 1, 125, 126, 127, 65_535, 65_536, 0, 0, 300];
const stream = Buffer.concat(lengths.map(frameOf));

test.each([1, 2, 3, 7, 1_000, stream.length])('counts frames that arrive in packets of %i bytes', (size) => {
  const counter = new FrameCounter(1_000);
  let frames = 0;
  for (let at = 0; at < stream.length; at += size) frames += counter.count(stream.subarray(at, at + size));
  expect(frames).toBe(lengths.length);
});

test('counts no further than to its limit', () => {
  expect(new FrameCounter(11).count(Buffer.concat(Array<Buffer>(1_000).fill(frameOf(0))))).toBe(11);
});

/** A connection whose received bytes the test chooses, and what was sent on it. */
function connection() {
  const sent: string[] = [];
  const socket = new Duplex({
    read() {},
    write(bytes, _encoding, done) {
      sent.push(String(bytes));
      done();
    },
  });
  return { socket, sent };
}
const settled = () => new Promise((done) => setImmediate(done));

test('passes nothing of a packet on that is above a limit, and destroys its connection', async () => {
  const { socket } = connection();
  const gate = new FrameGate(socket, frameOf(1), { maxFrames: 5, admit: (frames) => frames <= 5 });
  const passed: Buffer[] = [];
  gate.on('data', (bytes) => passed.push(bytes));
  await settled();
  socket.push(Buffer.concat(Array<Buffer>(6).fill(frameOf(0))));
  await settled();
  expect([socket.destroyed, gate.destroyed]).toEqual([true, true]);
  expect(Buffer.concat(passed)).toEqual(frameOf(1));
});

test('counts a small packet without the beginning of a frame as one, and a large one as none', async () => {
  const { socket } = connection();
  const counted: number[] = [];
  const admit = (frames: number) => counted.push(frames) > 0;
  new FrameGate(socket, Buffer.alloc(0), { maxFrames: 5, admit }).resume();
  const frame = frameOf(2000);
  for (const [from, end] of [
    [0, 600],
    [600, 1200],
    [1200, 1201],
  ]) {
    socket.push(frame.subarray(from, end));
    await settled();
  }
  expect(counted).toEqual([1, 0, 1]);
});

test('reads no further while its reader is paused', async () => {
  const { socket } = connection();
  const gate = new FrameGate(socket, Buffer.alloc(0), { maxFrames: 5, admit: () => true });
  socket.push(Buffer.alloc(1_000_000));
  socket.push(Buffer.alloc(1_000_000));
  await settled();
  expect([socket.isPaused(), socket.readableLength]).toEqual([true, 1_000_000]);
  gate.resume();
  await settled();
  expect(socket.readableLength).toBe(0);
});

test('after its end, sends what is queued, and counts but discards what arrives', async () => {
  const { socket, sent } = connection();
  let admitted = 0;
  const gate = new FrameGate(socket, Buffer.alloc(0), {
    maxFrames: 5,
    admit: (frames) => {
      admitted += frames;
      return true;
    },
  });
  const passed: Buffer[] = [];
  gate.on('data', (bytes) => passed.push(bytes));
  gate.write('reason');
  gate.finish();
  socket.push(frameOf(0));
  await settled();
  expect([admitted, passed, sent, socket.writableEnded]).toEqual([1, [], ['reason'], true]);
});

test('bytes that the system has taken do not count as unread', () => {
  const { socket } = connection();
  const gate = new FrameGate(socket, Buffer.alloc(0), { maxFrames: 5, admit: () => true });
  gate.cork();
  gate.write('head');
  gate.write('body');
  gate.uncork();
  expect(gate.writableLength).toBe(0);
});
