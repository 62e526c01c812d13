// How long the stages of a request took, for the Server-Timing header.

/** A clock with laps. */
export class ServerTiming {
  readonly #laps: string[] = [];
  #since = performance.now();

  /** Ends a stage; the next begins. */
  lap(stage: string): void {
    const now = performance.now();
    this.#laps.push(`${stage};dur=${(now - this.#since).toFixed(1)}`);
    this.#since = now;
  }

  /** Tells the stages, in milliseconds, in the response's header. */
  tellIn(response: Response): void {
    response.headers.append('Server-Timing', this.#laps.join(', '));
  }
}
