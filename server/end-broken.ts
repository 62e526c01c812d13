// Ends a process whose database has broken: it would answer nobody any more, and one that is started again is as it was.
import type { Log } from './log.ts';

/** The code a process ends with that only has to be started again (EX_TEMPFAIL of sysexits.h). */
export const startAgain = 75;

/**
 * Says why and ends at once: to close a database that answers nothing would last for ever, and all that was acknowledged is
 * on the disk.
 */
export function endBroken(log: Log, error: Error): never {
  log.fatal(
    { error: error.message },
    'the shop ends and has to be started again; nothing acknowledged is lost',
  );
  process.exit(startAgain);
}
