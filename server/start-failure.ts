// Describes why the shop could not start: one sentence where the operator can fix the cause.

import { UnusableKeysFile } from '../backend/api-keys.ts';
import { DatabaseError } from '../backend/database/database.ts';
import { FolderInUse } from '../backend/database/folder-lock.ts';
import { MigrationChanged } from '../backend/database/migrate.ts';
import { AddressTaken } from '../backend/listen.ts';
import { WrongSetting } from '../backend/wrong-setting.ts';

/** Connection lost or refused, authentication failed, unknown database: errors that our SQL cannot cause. */
const unreachable = /^(08|28|3D|57P)/;

/** The embedded database could not be opened (`io_error`). */
const unopened = '58030';

/** @returns a sentence; with its stack for internal errors */
export function describeStartFailure(error: unknown): string {
  if (error instanceof WrongSetting || error instanceof AddressTaken || error instanceof UnusableKeysFile)
    return error.message;
  if (error instanceof FolderInUse || error instanceof MigrationChanged) return `${error.message}.`;
  if (error instanceof DatabaseError && unreachable.test(error.code)) {
    return `The database cannot be used (${error.message}); check DATABASE_URL and whether the database runs.`;
  }
  if (error instanceof DatabaseError && error.code === unopened) {
    return `${error.message}; is there room on its disk? Otherwise restore a backup: npm run restore.`;
  }
  const { code, path, message } = (error ?? {}) as Partial<NodeJS.ErrnoException>;
  if (path && code && ['EACCES', 'EPERM', 'EROFS', 'EEXIST', 'ENOTDIR', 'ENOSPC'].includes(code)) {
    return `${path} cannot be used (${message}); check DATA_DIR and who may write there.`;
  }
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
