// Verifies a backup in a separate process at low priority, so that its memory and CPU time do not affect the shop.
import { constants, setPriority } from 'node:os';
import { checkBackup } from './check-backup.ts';

const [archive = '', work = ''] = process.argv.slice(2);
try {
  setPriority(constants.priority.PRIORITY_LOW);
} catch {
  // The system may not allow it.
}
try {
  process.stdout.write(await checkBackup(archive, work, process.env.CHECK_DATABASE_URL || null));
  process.exit(0);
} catch (error) {
  process.stderr.write(error instanceof Error ? error.message : String(error));
  process.exit(1);
}
