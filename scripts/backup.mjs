// `npm run backup`: makes a backup now, whether the shop runs or not, by the release that the shop runs.
import { importProgram, root } from './build/prepare.mjs';
import { currentRelease } from './releases/releases.mjs';

const { backUp } = await importProgram('backup-command', { isAsBuilt: true });
await backUp(root, currentRelease(root));
