// `npm run move -- --to <place>`: moves a stopped shop to another database.
import { importProgram, root } from './build/prepare.mjs';
import { currentRelease } from './releases/releases.mjs';

const { move } = await importProgram('backup-command', { isAsBuilt: true });
await move(root, currentRelease(root), process.argv.slice(2));
