// A stream between a connection and the WebSocket parser, which takes time for each frame: two bytes are a frame, and 64 KiB hold
// ten thousand. The gate counts frames by their headers and passes on only what is within the limits.
import { Duplex } from 'node:stream';

/** A packet that begins no frame counts as one, too, when it is smaller: clients could send a frame byte by byte. */
const smallPacketBytes = 512;
/** Clients mask every frame (RFC 6455, 5.3); the parser refuses others. */
const maskBytes = 4;

/** Counts the frames that begin in a stream of bytes. */
export class FrameCounter {
  readonly #most: number;
  /** Bytes of the current frame's mask and payload that are still to come. */
  #rest = 0;
  /** Bytes of the current header so far. */
  #position = 0;
  /** Bytes of the payload's length that are still to come. */
  #lengthBytes = 0;
  #length = 0;

  /** @param most number of frames of a packet at which the count ends */
  constructor(most: number) {
    this.#most = most;
  }

  /** The number of frames that begin in the next bytes, in constant time for each. */
  count(bytes: Uint8Array): number {
    let frames = 0;
    let at = 0;
    while (at < bytes.length && frames < this.#most) {
      if (this.#rest > 0) {
        const skipped = Math.min(this.#rest, bytes.length - at);
        this.#rest -= skipped;
        at += skipped;
        continue;
      }
      const byte = bytes[at] ?? 0;
      at += 1;
      this.#position += 1;
      if (this.#position === 1) {
        frames += 1;
        continue;
      }
      if (this.#position === 2) {
        const length = byte & 0x7f;
        this.#lengthBytes = length === 127 ? 8 : length === 126 ? 2 : 0;
        this.#length = this.#lengthBytes > 0 ? 0 : length;
      } else {
        this.#lengthBytes -= 1;
        this.#length = this.#length * 256 + byte;
      }
      if (this.#lengthBytes > 0) continue;
      this.#rest = this.#length + maskBytes;
      this.#position = 0;
    }
    return frames;
  }
}

export interface FrameGateOptions {
  /** Maximum frames of one packet. */
  maxFrames: number;
  /** Counts what has arrived; false destroys the connection before anything is parsed. */
  admit: (frames: number, bytes: number) => boolean;
}

/** Wraps a connection, so that the WebSocket parser reads only admitted bytes. */
export class FrameGate extends Duplex {
  readonly #connection: Duplex;
  readonly #admit: FrameGateOptions['admit'];
  readonly #counter: FrameCounter;
  #isDiscarding = false;

  /** @param head bytes that arrived with the upgrade request */
  constructor(connection: Duplex, head: Buffer, { maxFrames, admit }: FrameGateOptions) {
    super({ decodeStrings: false });
    this.#connection = connection;
    this.#admit = admit;
    this.#counter = new FrameCounter(maxFrames + 1);
    if (head.length > 0) connection.unshift(head);
    connection.on('data', (bytes: Buffer) => this.#receive(bytes));
    connection.on('end', () => this.push(null));
    connection.on('close', () => this.destroy());
  }

  /** Sends what is queued, ends the connection, and parses nothing more of it. */
  finish(): void {
    this.#isDiscarding = true;
    this.#connection.resume();
    this.end();
  }

  #receive(bytes: Buffer): void {
    const frames = this.#counter.count(bytes);
    const isDrip = frames === 0 && bytes.length < smallPacketBytes;
    if (!this.#admit(isDrip ? 1 : frames, bytes.length)) this.destroy();
    else if (!this.#isDiscarding && !this.push(bytes)) this.#connection.pause();
  }

  override _read(): void {
    this.#connection.resume();
  }

  override _write(bytes: unknown, encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#forward((flushed) => this.#connection.write(bytes, encoding, flushed), done);
  }

  override _writev(
    chunks: { chunk: unknown; encoding: BufferEncoding }[],
    done: (error?: Error | null) => void,
  ): void {
    this.#forward((flushed) => {
      this.#connection.cork();
      for (const [index, { chunk, encoding }] of chunks.entries()) {
        this.#connection.write(chunk, encoding, index === chunks.length - 1 ? flushed : undefined);
      }
      this.#connection.uncork();
    }, done);
  }

  /** What the system takes at once must not count as unread until the next tick. */
  #forward(
    write: (flushed: (error?: Error | null) => void) => void,
    done: (error?: Error | null) => void,
  ): void {
    let isDone = false;
    const flushed = (error?: Error | null) => {
      if (isDone) return;
      isDone = true;
      done(error);
    };
    write(flushed);
    if (this.#connection.writableLength === 0 && !this.#connection.destroyed) flushed();
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#connection.end(() => done());
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#connection.destroy();
    done(error);
  }
}
