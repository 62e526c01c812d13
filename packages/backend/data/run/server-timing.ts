// Durations of a request's stages, for the Server-Timing header.
import type { PlainResponse } from '../../http/plain-response.ts';

/** A clock with laps. */
export class ServerTiming {
  readonly #laps = new Map<string, number>();
  #since = performance.now();

  /** Ends a stage, adds its duration to earlier ones of that name, and begins the next. */
  lap(stage: string): void {
    const now = performance.now();
    this.#laps.set(stage, (this.#laps.get(stage) ?? 0) + now - this.#since);
    this.#since = now;
  }

  /** The stages in milliseconds, as header text. */
  writeTo({ headers }: Response | PlainResponse): void {
    const laps = [...this.#laps].map(([stage, ms]) => `${stage};dur=${ms.toFixed(1)}`);
    const timing = laps.join(', ');
    if (headers instanceof Headers) headers.append('server-timing', timing);
    else headers['server-timing'] = [headers['server-timing'] ?? [], timing].flat().join(', ');
  }
}
