// Whether this version can run on the database, for `npm run update` and `npm run restore`.
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { refuseNewer } from '@jani-juice/backend/database';
import { FolderInUse } from '@jani-juice/backend/files';
import { openDatabase } from './start/persistence.ts';
import { migrationsOf } from './start/prepare-database.ts';
import { readConfig } from './start/settings/config.ts';
import { describeStartFailure } from './start/start-failure.ts';

/**
 * Sets the exit code: 1, with a sentence, when the database is of a newer version or cannot be opened; 2 when a process has the embedded
 * database open.
 * @param root the project's folder
 */
export async function checkVersion(root: string): Promise<void> {
  const release = dirname(dirname(fileURLToPath(import.meta.url)));
  try {
    const config = readConfig(process.env, root);
    // A check creates no database.
    if (config.supabase || (!config.databaseUrl && !existsSync(join(config.dataDir, 'database')))) return;
    const database = await openDatabase(config, () => {}, release);
    await refuseNewer(database, migrationsOf(release)).finally(() => database.close());
  } catch (error) {
    process.exitCode = error instanceof FolderInUse ? 2 : 1;
    if (process.exitCode === 1) process.stderr.write(`${describeStartFailure(error)}\n`);
  }
}
