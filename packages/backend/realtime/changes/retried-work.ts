// Work triggered by notifications: done in order, and retried after a delay when it fails.

const retryMilliseconds = 500;

/** The work. */
export interface Workload {
  /** Whether there is work. */
  isDue(): boolean;
  /**
   * Does the work. After a rejection, the rest stays due and is retried in half a second.
   * @param isStopped whether to leave the rest
   */
  work(isStopped: () => boolean): Promise<void>;
}

export class RetriedWork {
  readonly #load: Workload;
  readonly #onError: (error: unknown) => void;
  #running: Promise<void> | null = null;
  #retry: NodeJS.Timeout | null = null;
  #isStopped = false;

  /** @param onError receives the reason of each retry */
  constructor(load: Workload, onError: (error: unknown) => void) {
    this.#load = load;
    this.#onError = onError;
  }

  /** Starts the work, unless it runs or waits for a retry. */
  start(): void {
    if (this.#running || this.#retry || this.#isStopped) return;
    this.#running = this.#load
      .work(() => this.#isStopped)
      .catch((error) => {
        this.#onError(error);
        this.#retry = setTimeout(() => {
          this.#retry = null;
          this.start();
        }, retryMilliseconds);
      })
      .finally(() => {
        this.#running = null;
        // Work that arrived during the last round.
        if (this.#load.isDue()) this.start();
      });
  }

  /** Stops; resolves when the running work has ended. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    if (this.#retry) clearTimeout(this.#retry);
    await this.#running;
  }
}
