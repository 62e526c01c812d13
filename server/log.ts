// The server's log: one JSON line per event, personal data and secrets masked.
import pino from 'pino';
import { WrongSetting } from './wrong-setting.ts';

export type Log = pino.Logger;

const levels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'];

/**
 * Opens the log on standard output.
 * @throws WrongSetting when there is no such level
 */
export function openLog(level = 'info'): Log {
  if (!levels.includes(level)) {
    throw new WrongSetting(`LOG_LEVEL is "${level}", but it takes ${levels.join(' or ')}.`);
  }
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
    .replace(/(\/(?:notice|till|check|reversal|reach)\/)[^/?]+/g, '$1•••')
    .replace(/([?&](?:key|apikey|token|access_token|tracking)=)[^&]*/g, '$1•••')
    .replace(/(\/track-order\/)[^/?]+/g, '$1•••')
    .replace(/^(\/t\/)[^/?]+/, '$1•••');
}
