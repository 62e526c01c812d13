// Writes messages of PostgreSQL's protocol (its documentation, "Message Formats") one behind the other, so that they go to
// the server in one piece.

// Room to write in; what is taken is a copy. Nothing waits between the first message and the last, so one room is enough.
const mostKept = 64 * 1024;
let room = Buffer.allocUnsafe(mostKept);

const describePortal = fixed('D', [0x50, 0]);
const execute = fixed('E', [0, 0, 0, 0, 0]);
const sync = fixed('S', []);

/** Messages on their way to one server. Others are begun only when these are taken. */
export class WireMessages {
  #length = 0;

  /** Prepares a statement; '' is the one without a name. */
  parse(name: string, text: string): this {
    const start = this.#begin('P', 3 * (name.length + text.length) + 4);
    this.#write(name);
    this.#write(text);
    this.#length = room.writeInt16BE(0, this.#length);
    return this.#end(start);
  }

  /**
   * Gives a prepared statement its values, as text, and has it answer as text.
   * @param values strings, numbers, booleans, null, or objects (sent as JSON)
   */
  bind(statement: string, values: readonly unknown[]): this {
    const texts = values.map(textOf);
    let most = 3 * statement.length + 16;
    for (const text of texts) most += 4 + (text === null ? 0 : 3 * text.length);
    const start = this.#begin('B', most);
    let at = this.#length;
    // The portal without a name.
    room[at++] = 0;
    at += room.write(statement, at);
    room[at++] = 0;
    at = room.writeInt16BE(0, at);
    at = room.writeInt16BE(texts.length, at);
    for (const text of texts) {
      const bytes = text === null ? -1 : room.write(text, at + 4);
      at = room.writeInt32BE(bytes, at) + Math.max(0, bytes);
    }
    this.#length = room.writeInt16BE(0, at);
    return this.#end(start);
  }

  /** Asks what the statement bound last gives. */
  describePortal(): this {
    return this.#add(describePortal);
  }

  /** Runs the statement bound last. */
  execute(): this {
    return this.#add(execute);
  }

  /** Ends the transaction. */
  sync(): this {
    return this.#add(sync);
  }

  /** All of it. */
  take(): Buffer {
    const taken = Buffer.from(room.subarray(0, this.#length));
    if (room.length > mostKept) room = Buffer.allocUnsafe(mostKept);
    return taken;
  }

  #begin(code: string, most: number): number {
    this.#makeRoom(5 + most);
    const start = this.#length;
    room[start] = code.charCodeAt(0);
    this.#length = start + 5;
    return start;
  }

  #end(start: number): this {
    // The code is not counted.
    room.writeInt32BE(this.#length - start - 1, start + 1);
    return this;
  }

  #write(text: string): void {
    this.#length += room.write(text, this.#length);
    room[this.#length++] = 0;
  }

  #add(message: Buffer): this {
    this.#makeRoom(message.length);
    message.copy(room, this.#length);
    this.#length += message.length;
    return this;
  }

  #makeRoom(bytes: number): void {
    if (this.#length + bytes <= room.length) return;
    const larger = Buffer.allocUnsafe(2 * (this.#length + bytes));
    room.copy(larger, 0, 0, this.#length);
    room = larger;
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
