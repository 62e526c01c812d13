// The check of a backup as a process of its own, at low priority: its memory and its work are not the shop's.
import { constants, setPriority } from 'node:os';
import { checkBackup } from './check-backup.ts';

const [archive = '', work = ''] = process.argv.slice(2);
try {
  setPriority(constants.priority.PRIORITY_LOW);
} catch {
  // It may not be ours to say.
}
try {
  process.stdout.write(await checkBackup(archive, work, process.env.CHECK_DATABASE_URL || null));
  process.exit(0);
} catch (error) {
  process.stderr.write(error instanceof Error ? error.message : String(error));
  process.exit(1);
}
