// `npm run restore -- <file> [--replace]`: restores a backup into a stopped shop, and says if a newer version made it.
import { importProgram, root } from './build/prepare.mjs';
import { currentRelease } from './releases/releases.mjs';

const { restore } = await importProgram('backup-command', { isAsBuilt: true });
await restore(root, currentRelease(root), process.argv.slice(2));
if (!process.exitCode) {
  const { checkVersion } = await importProgram('check-version', { isAsBuilt: true });
  await checkVersion(root);
}
