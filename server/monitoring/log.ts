// The server's log: one line per event, for people at a terminal and as JSON elsewhere; personal data and secrets masked.
import { styleText } from 'node:util';
import { WrongSetting } from '@jani-juice/backend/settings';
import pino from 'pino';
import { createLineLimit } from './line-limit.ts';
import { maskFields } from './mask-log.ts';

export type Log = pino.Logger;

const levels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'];

const warning = 40;
/** Maximum number of messages with their own limit; the code has far fewer. */
const maxMessages = 500;

/**
 * Opens the log. Warnings and errors with the same message are limited per second: the next line has the number of omitted ones as `more`.
 * @param destination of JSON lines. Default: standard output, readable text where it is a terminal.
 * @throws WrongSetting for an unknown level
 */
export function openLog(level = 'info', destination?: pino.DestinationStream): Log {
  if (!levels.includes(level)) {
    throw new WrongSetting(`LOG_LEVEL is "${level}", but it takes ${levels.join(' or ')}.`);
  }
  const limits = new Map<string, () => number | null>();
  const countLine = (message: string): number | null => {
    const kind = limits.has(message) || limits.size < maxMessages ? message : '';
    const count = limits.get(kind) ?? createLineLimit();
    limits.set(kind, count);
    return count();
  };
  const options: pino.LoggerOptions = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    // Here, so that no line can bypass it.
    formatters: { level: (label) => ({ level: label }), log: maskFields },
    hooks: {
      logMethod(parts, write, severity) {
        const [fields, message] = parts as [unknown, string?];
        if (severity < warning) return write.apply(this, parts);
        const suppressed = countLine(String(message ?? (typeof fields === 'string' ? fields : '')));
        if (suppressed === null) return;
        if (suppressed > 0 && message !== undefined && typeof fields === 'object') {
          return write.apply(this, [{ ...fields, more: suppressed }, message]);
        }
        return write.apply(this, parts);
      },
    },
  };
  const lines = destination ?? (process.stdout.isTTY ? terminal : null);
  return lines ? pino(options, lines) : pino(options);
}

const terminal: pino.DestinationStream = {
  write: (line) => void process.stdout.write(`${formatLine(line)}\n`),
};
const colours = { warn: 'yellow', error: 'red', fatal: 'red' } as const;

/**
 * Formats a line of the log for people: time, level, message, facts; a stack on separate lines.
 * @param line JSON
 */
export function formatLine(line: string): string {
  const { level, time, msg, error, ...facts } = JSON.parse(line);
  const colour = process.env.NO_COLOR ? undefined : colours[level as keyof typeof colours];
  const text = [
    new Date(time).toTimeString().slice(0, 8),
    colour ? styleText(colour, level) : level,
    msg ?? '',
    ...Object.entries(facts).map(
      ([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
    ),
  ].join('  ');
  if (error === undefined) return text;
  const stack = typeof error === 'string' ? error : JSON.stringify(error);
  return `${text}\n${stack.replaceAll(/^/gm, '    ')}`;
}
