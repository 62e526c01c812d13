// Describes why the shop could not start: one sentence where the operator can fix the cause.

import { DatabaseError, MigrationChanged, OtherVersion } from '@jani-juice/backend/database';
import { FolderInUse, NoTemporaryFolder } from '@jani-juice/backend/files';
import { UnusableAddress } from '@jani-juice/backend/http';
import { UnusableKeysFile, WrongSetting } from '@jani-juice/backend/settings';
import { UnreadableLedger } from '@jani-juice/daraja-simulator';

/** Connection lost or refused, authentication failed, unknown database: errors that our SQL cannot cause. */
const unreachable = /^(08|28|3D|57P)/;

/** Errors whose message is a sentence with the next step. */
const ownSentences = [WrongSetting, UnusableAddress, UnusableKeysFile, UnreadableLedger, NoTemporaryFolder];

const backToBackup = 'restore a backup: npm run restore -- --replace FILE';

/** The next step after errors of the database itself, by SQLSTATE. */
const nextSteps: Record<string, string> = {
  53100: 'free some space on its disk',
  53200: 'close other programs, or use a machine with more memory',
  42501: 'create roles and database as docs/operating.md lists (Several processes on PostgreSQL)',
};
// Damaged file contents: data or index corrupted, undefined file, input/output error.
for (const code of ['XX001', 'XX002', '58P01', '58030']) {
  nextSteps[code] = `${backToBackup} (the damaged files are moved aside)`;
}

/** @returns a sentence; with its stack for internal errors */
export function describeStartFailure(error: unknown): string {
  if (ownSentences.some((kind) => error instanceof kind)) return (error as Error).message;
  if (error instanceof FolderInUse || error instanceof MigrationChanged) return `${error.message}.`;
  if (error instanceof DatabaseError && error.message.startsWith('The embedded database')) {
    return `${error.message}; if this happens again, its files are damaged: ${backToBackup}.`;
  }
  if (error instanceof DatabaseError && unreachable.test(error.code)) {
    return `The database cannot be used (${error.message}); check its address (DATABASE_URL, or --to of a move) and whether it runs.`;
  }
  if (error instanceof OtherVersion) {
    return error.isNewer
      ? `${error.message}; start the newer version again (npm run update fetches it), or restore a backup of this version, which loses what came after it: npm run restore -- --replace FILE.`
      : `${error.message}; start the version that wrote it.`;
  }
  if (error instanceof DatabaseError && error.code === '0A000' && error.message.includes('extension')) {
    return `${error.message}; install PostgreSQL's additional modules (postgresql-contrib).`;
  }
  if (error instanceof DatabaseError && Object.hasOwn(nextSteps, error.code)) {
    return `${error.message}; ${nextSteps[error.code]}.`;
  }
  const { code, path, message } = (error ?? {}) as Partial<NodeJS.ErrnoException>;
  // A failed write of an open file names no path.
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    return `The disk is full (${message}); free some space on the disks of DATA_DIR and of the temporary folder.`;
  }
  if (path && code && ['EACCES', 'EPERM', 'EROFS', 'EEXIST', 'ENOTDIR'].includes(code)) {
    return `${path} cannot be used (${message}); check DATA_DIR and who may write there.`;
  }
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
