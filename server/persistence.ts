// What outlives the process, where a person says it is: the database, uploaded files, keys.
import { join } from 'node:path';
import type { GivenKeys } from '../backend/api-keys.ts';
import type { Database, DatabaseError } from '../backend/database/database.ts';
import { createDiskFiles } from '../backend/storage/disk-files.ts';
import type { FileStore } from '../backend/storage/file-store.ts';
import { createS3Files } from '../backend/storage/s3-files.ts';
import type { Config } from './config.ts';

/** Every key a person may set. */
export function givenKeys({ givenKeys: keys, backend }: Config): GivenKeys {
  return { ...keys, signingKeys: backend.signingKeys, sharedSecret: backend.sharedSecret };
}

/** Where uploaded files are. */
export function openFiles({ s3, dataDir }: Config): FileStore {
  return s3 ? createS3Files(s3, join(dataDir, 'storage/work')) : createDiskFiles(join(dataDir, 'storage'));
}

/**
 * The database a person chose.
 * @param root the project's folder, whose build may hold what a new database begins with
 * @param onBreak called when the embedded one has broken for good
 */
export async function openDatabase(
  config: Config,
  onFault: (error: unknown, where: string) => void,
  root?: string,
  onBreak?: (error: DatabaseError) => void,
): Promise<Database> {
  // Only the driver that is used is loaded.
  if (config.databaseUrl) {
    const { openPostgresql } = await import('../backend/database/postgresql.ts');
    return openPostgresql(config.databaseUrl, { onFault: (error) => onFault(error, 'database') });
  }
  const { openPglite } = await import('../backend/database/pglite.ts');
  return openPglite(join(config.dataDir, 'database'), {
    ...(root ? { blanks: join(root, 'build/blank-database') } : {}),
    ...(onBreak ? { onBreak } : {}),
  });
}
