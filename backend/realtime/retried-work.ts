// Work that notifications give: done one piece after another, and tried again after a while when it fails.

const retryMilliseconds = 500;

/** What is to be done. */
export interface Workload {
  /** Whether there is anything to do. */
  isDue(): boolean;
  /**
   * Does what is due. What it rejects is still due, and done again after half a second.
   * @param isStopped whether to leave the rest undone
   */
  work(isStopped: () => boolean): Promise<void>;
}

export class RetriedWork {
  readonly #load: Workload;
  readonly #onFault: (error: unknown) => void;
  #running: Promise<void> | null = null;
  #retry: NodeJS.Timeout | null = null;
  #isStopped = false;

  /** @param onFault told why work has to be tried again */
  constructor(load: Workload, onFault: (error: unknown) => void) {
    this.#load = load;
    this.#onFault = onFault;
  }

  /** Begins, unless it is being done or waits to be tried again. */
  start(): void {
    if (this.#running || this.#retry || this.#isStopped) return;
    this.#running = this.#load
      .work(() => this.#isStopped)
      .catch((error) => {
        this.#onFault(error);
        this.#retry = setTimeout(() => {
          this.#retry = null;
          this.start();
        }, retryMilliseconds);
      })
      .finally(() => {
        this.#running = null;
        // What came while the last of it was done.
        if (this.#load.isDue()) this.start();
      });
  }

  /** Leaves what is not begun undone; resolves when what is begun has ended. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    if (this.#retry) clearTimeout(this.#retry);
    await this.#running;
  }
}
