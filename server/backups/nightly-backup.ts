// The job that backs up every night, and whenever staff ask for it.
import type { Database } from '@jani-juice/backend/database';
import type { Job } from '../jobs/jobs.ts';
import type { Log } from '../monitoring/log.ts';
import type { Config } from '../start/settings/config.ts';
import { createBackups } from './backups.ts';

/**
 * Creates the job and listens for requests of staff until it is stopped.
 * @param root the folder with the migrations: a release, or the project's
 * @param onError called when a requested backup fails
 */
export async function backUpNightly(
  database: Database,
  config: Config,
  root: string,
  log: Log,
  onError: (error: unknown, where: string) => void,
): Promise<Job> {
  const backups = createBackups({ database, config, log, root });
  const stopListening = await database.listen('backup_requests', () => {
    backups.run().catch((error: unknown) => onError(error, 'backups'));
  });
  const stopChecking = await database.listen('backup_checks', (backupId) => {
    backups.check(Number(backupId)).catch((error: unknown) => onError(error, 'backups'));
  });
  return {
    name: 'back up',
    everyMs: 10 * 60 * 1000,
    // Delayed, so that it does not slow down the first pages.
    firstAfterMs: 3 * 60 * 1000,
    run: () => backups.runIfDue(),
    async stop() {
      await Promise.all([stopListening(), stopChecking()]);
      await backups.close();
    },
  };
}
