// Requests that are refused, as the log shows them: one short line each, a few per second, so that nobody fills the disk with them.
import { networksOf } from '../backend/network.ts';
import { type Log, maskPath } from './log.ts';

export interface RefusedRequest {
  method: string;
  /** Path and query, unmasked. */
  path: string;
  status: number;
  /** IP address of the client. */
  address: string;
  /** Why, in a few words. */
  reason: string;
}

export interface RefusalLogOptions {
  log: Pick<Log, 'info'>;
  /** Lines per second on average. Default: 5. */
  linesPerSecond?: number;
  /** Lines that may come at once after a quiet time. Default: 20. */
  burst?: number;
  /** Milliseconds of a clock that only goes forward. */
  now?: () => number;
}

const maxPathLength = 200;

/**
 * Makes the function that writes the lines.
 * @returns a function to call for each refused request; those beyond the limit are counted in the next line as `more`
 */
export function createRefusalLog(options: RefusalLogOptions): (refused: RefusedRequest) => void {
  const { log, linesPerSecond = 5, burst = 20, now = () => performance.now() } = options;
  let lines = burst;
  let refilledAt = now();
  let more = 0;
  return ({ method, path, status, address, reason }) => {
    const time = now();
    lines = Math.min(burst, lines + ((time - refilledAt) / 1000) * linesPerSecond);
    refilledAt = time;
    if (lines < 1) {
      more += 1;
      return;
    }
    lines -= 1;
    // The network is enough to block it, and no personal data.
    const from = networksOf(address).at(-1);
    const masked = maskPath(path.slice(0, maxPathLength));
    log.info(
      { method: method.slice(0, 10), path: masked, status, from, reason, ...(more > 0 ? { more } : {}) },
      'request refused',
    );
    more = 0;
  };
}
