// One message to many receivers, in slices: between two of them the process does its other work, so that no page waits for a
// message with many receivers.

/** Deliveries between two turns of the event loop. One counts once more for each 4 KiB, so that they are about 1 MB at most. */
const deliveriesPerTurn = 250;
const bytesPerDelivery = 4 * 1024;

export interface FanOutOptions {
  /** Null while there is room for what sockets have not read; otherwise resolves when there is. */
  room: () => Promise<void> | null;
  onFault: (error: unknown) => void;
}

export class FanOut {
  readonly #room: () => Promise<void> | null;
  readonly #onFault: (error: unknown) => void;
  /** In this turn of the event loop. */
  #delivered = 0;
  /** The end of what waits to be delivered: messages keep their order. */
  #tail: Promise<void> | null = null;

  constructor({ room, onFault }: FanOutOptions) {
    this.#room = room;
    this.#onFault = onFault;
  }

  /**
   * Gives a message to its receivers, those at the time of this call.
   * @param bytes of the message
   * @param pass gives it to one of them, which may be gone by then
   * @returns null when all have it; otherwise resolves when they have
   */
  deliver<Receiver>(
    receivers: ReadonlySet<Receiver>,
    bytes: number,
    pass: (receiver: Receiver) => void,
  ): Promise<void> | null {
    const weight = 1 + bytes / bytesPerDelivery;
    const fits = this.#delivered + receivers.size * weight <= deliveriesPerTurn;
    if (!this.#tail && fits && !this.#room()) {
      for (const receiver of receivers) this.#pass(receiver, weight, pass);
      return null;
    }
    const tail = this.#deliverInSlices(this.#tail, [...receivers], weight, pass).finally(() => {
      if (this.#tail === tail) this.#tail = null;
    });
    this.#tail = tail;
    return tail;
  }

  async #deliverInSlices<Receiver>(
    before: Promise<void> | null,
    receivers: readonly Receiver[],
    weight: number,
    pass: (receiver: Receiver) => void,
  ): Promise<void> {
    await before;
    for (const receiver of receivers) {
      if (this.#delivered >= deliveriesPerTurn) {
        await new Promise((done) => setImmediate(done));
        await this.#room();
      }
      this.#pass(receiver, weight, pass);
    }
  }

  #pass<Receiver>(receiver: Receiver, weight: number, pass: (receiver: Receiver) => void) {
    if (this.#delivered === 0) {
      setImmediate(() => {
        this.#delivered = 0;
      });
    }
    this.#delivered += weight;
    try {
      pass(receiver);
    } catch (error) {
      this.#onFault(error);
    }
  }
}
