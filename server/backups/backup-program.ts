// Makes a backup in a separate process at a lower priority, so that its memory and CPU time do not affect the shop.
import { constants, setPriority } from 'node:os';
import { openLog } from '../monitoring/log.ts';
import { watchLoop } from '../monitoring/watch-loop.ts';
import { type BackupTask, makeBackup } from './backup-task.ts';

try {
  // The lowest would get no time at all on a machine that is busy for hours: a check of ten seconds then takes many minutes.
  setPriority(constants.priority.PRIORITY_BELOW_NORMAL);
} catch {
  // The system may not allow it.
}
// The shop's end of the pipe closes with the shop, however it ends. Without it, this program would go on in the next one's folder.
process.stdin.resume().once('close', () => process.exit(1));
await watchLoop(openLog('silent'));
try {
  const task = JSON.parse(process.argv[2] ?? '') as BackupTask;
  await makeBackup(task, process.env.BACKUP_DATABASE_URL ?? '');
  process.exit(0);
} catch (error) {
  process.stderr.write(error instanceof Error ? error.message : String(error));
  process.exit(1);
}
