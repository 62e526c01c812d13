// Logs rejected requests: one short line each, and only a few per second, so that clients cannot fill the disk.
import { networksOf } from '@jani-juice/backend/limits';
import { createLineLimit, type LineLimitOptions } from './line-limit.ts';
import type { Log } from './log.ts';

export interface RefusedRequest {
  method: string;
  /** Path and query, unmasked. */
  path: string;
  status: number;
  /** IP address of the client. */
  address: string;
  /** Reason, in a few words. */
  reason: string;
  requestId?: string | undefined;
}

export interface RefusalLogOptions extends LineLimitOptions {
  log: Pick<Log, 'info'>;
}

const maxPathLength = 200;

/**
 * Creates the function that writes the lines.
 * @returns a function to call for each refused request; those beyond the limit are counted in the next line as `more`
 */
export function createRefusalLog(options: RefusalLogOptions): (refused: RefusedRequest) => void {
  const { log } = options;
  const countLine = createLineLimit(options);
  return ({ method, path, status, address, reason, requestId }) => {
    const suppressed = countLine();
    if (suppressed === null) return;
    // The network is enough to block it, and is not personal data.
    const from = networksOf(address).at(-1);
    log.info(
      {
        method: method.slice(0, 10),
        path: path.slice(0, maxPathLength),
        status,
        from,
        reason,
        requestId,
        ...(suppressed > 0 ? { more: suppressed } : {}),
      },
      'request refused',
    );
  };
}
