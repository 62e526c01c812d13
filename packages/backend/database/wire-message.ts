// Writes messages of PostgreSQL's protocol (its documentation, "Message Formats") one after another, so that they go to
// the server in one piece.

// A shared write buffer; results are copies. Nothing is awaited between the first message and the last, so one buffer suffices.
const maxRetainedBytes = 64 * 1024;
let buffer = Buffer.allocUnsafe(maxRetainedBytes);

const describePortal = fixed('D', [0x50, 0]);
const execute = fixed('E', [0, 0, 0, 0, 0]);
const flush = fixed('H', []);
const sync = fixed('S', []);

/** Messages to one server. Only one set is written at a time. */
export class WireMessages {
  #length = 0;

  /** Prepares a statement; '' is the one without a name. */
  parse(name: string, text: string): this {
    const start = this.#begin('P', 3 * (name.length + text.length) + 4);
    this.#write(name);
    this.#write(text);
    this.#length = buffer.writeInt16BE(0, this.#length);
    return this.#end(start);
  }

  /**
   * Binds text values to a prepared statement, with text results.
   * @param values strings, numbers, booleans, null, or objects (sent as JSON)
   */
  bind(statement: string, values: readonly unknown[]): this {
    const texts = values.map(textOf);
    let maxBytes = 3 * statement.length + 16;
    for (const text of texts) maxBytes += 4 + (text === null ? 0 : 3 * text.length);
    const start = this.#begin('B', maxBytes);
    let at = this.#length;
    // The unnamed portal.
    buffer[at++] = 0;
    at += buffer.write(statement, at);
    buffer[at++] = 0;
    at = buffer.writeInt16BE(0, at);
    at = buffer.writeInt16BE(texts.length, at);
    for (const text of texts) {
      const bytes = text === null ? -1 : buffer.write(text, at + 4);
      at = buffer.writeInt32BE(bytes, at) + Math.max(0, bytes);
    }
    this.#length = buffer.writeInt16BE(0, at);
    return this.#end(start);
  }

  /** Describes the bound statement's result. */
  describePortal(): this {
    return this.#add(describePortal);
  }

  /** Runs the statement bound last. */
  execute(): this {
    return this.#add(execute);
  }

  /** Requests the answers so far, without an end of the transaction. */
  flush(): this {
    return this.#add(flush);
  }

  /** Runs a statement without values, and ends the transaction. */
  query(text: string): this {
    const start = this.#begin('Q', 3 * text.length + 1);
    this.#write(text);
    return this.#end(start);
  }

  /** Ends the transaction. */
  sync(): this {
    return this.#add(sync);
  }

  /** All of it. */
  take(): Buffer {
    const bytes = Buffer.from(buffer.subarray(0, this.#length));
    if (buffer.length > maxRetainedBytes) buffer = Buffer.allocUnsafe(maxRetainedBytes);
    return bytes;
  }

  #begin(code: string, most: number): number {
    this.#makeRoom(5 + most);
    const start = this.#length;
    buffer[start] = code.charCodeAt(0);
    this.#length = start + 5;
    return start;
  }

  #end(start: number): this {
    // The code is not counted.
    buffer.writeInt32BE(this.#length - start - 1, start + 1);
    return this;
  }

  #write(text: string): void {
    this.#length += buffer.write(text, this.#length);
    buffer[this.#length++] = 0;
  }

  #add(message: Buffer): this {
    this.#makeRoom(message.length);
    message.copy(buffer, this.#length);
    this.#length += message.length;
    return this;
  }

  #makeRoom(bytes: number): void {
    if (this.#length + bytes <= buffer.length) return;
    const larger = Buffer.allocUnsafe(2 * (this.#length + bytes));
    buffer.copy(larger, 0, 0, this.#length);
    buffer = larger;
  }
}

function fixed(code: string, body: readonly number[]): Buffer {
  return Buffer.from([code.charCodeAt(0), 0, 0, 0, body.length + 4, ...body]);
}

function textOf(value: unknown): string | null {
  if (typeof value === 'string') return value;
  if (value === null || value === undefined) return null;
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}
