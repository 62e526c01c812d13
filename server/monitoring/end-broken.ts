// Ends a process whose database has broken: it can serve no more requests, and a restarted process recovers.
import type { Log } from './log.ts';

/** Exit code of a process that only has to be restarted (EX_TEMPFAIL of sysexits.h). */
export const restartExitCode = 75;

/**
 * Logs the reason and exits immediately: closing a broken database would never end, and all acknowledged writes are
 * on the disk.
 */
export function exitForRestart(log: Log, error: Error): never {
  log.fatal({ error: error.message }, 'the shop stops and must be restarted; no acknowledged write is lost');
  process.exit(restartExitCode);
}
