// The server's log: one JSON line per event, personal data and secrets masked.
import pino from 'pino';

export type Log = pino.Logger;

/** Opens the log on standard output. */
export function openLog(level = 'info'): Log {
  return pino({
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
  });
}

/**
 * A path as it may be logged: what opens something is cut out of it.
 * @param path path and query of a request
 */
export function maskPath(path: string): string {
  return path
    .replace(/(\/notice\/)[^/?]+/g, '$1•••')
    .replace(/([?&](?:key|apikey|token|access_token|tracking)=)[^&]*/g, '$1•••')
    .replace(/(\/track-order\/)[^/?]+/g, '$1•••');
}
