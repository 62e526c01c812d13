// Delivers one message to many receivers in slices, so that the event loop serves other requests in between.

/** Deliveries per slice. Each 4 KiB of a message counts as one more, so that a slice is about 1 MB at most. */
const deliveriesPerTurn = 250;
const bytesPerDelivery = 4 * 1024;

export interface FanOutOptions {
  /** Null while unread data is below the limit; otherwise resolves when it is. */
  drained: () => Promise<void> | null;
  onError: (error: unknown) => void;
}

export class FanOut {
  readonly #drained: () => Promise<void> | null;
  readonly #onError: (error: unknown) => void;
  /** Deliveries in this iteration of the event loop. */
  #delivered = 0;
  /** The last pending delivery: messages keep their order. */
  #tail: Promise<void> | null = null;

  constructor({ drained, onError }: FanOutOptions) {
    this.#drained = drained;
    this.#onError = onError;
  }

  /**
   * Delivers a message to the receivers at the time of this call.
   * @param bytes size of the message
   * @param pass sends it to one receiver, which may have left by then
   * @returns null when all receivers have it; otherwise resolves when they do
   */
  deliver<Receiver>(
    receivers: ReadonlySet<Receiver>,
    bytes: number,
    pass: (receiver: Receiver) => void,
  ): Promise<void> | null {
    const weight = 1 + bytes / bytesPerDelivery;
    const fits = this.#delivered + receivers.size * weight <= deliveriesPerTurn;
    if (!this.#tail && fits && !this.#drained()) {
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
        await this.#drained();
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
      this.#onError(error);
    }
  }
}
