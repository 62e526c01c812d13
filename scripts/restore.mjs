// `npm run restore -- <file> [--replace]`: restores a backup into a stopped shop.
import { importProgram, root } from './prepare.mjs';

const { restore } = await importProgram('backup-command', { isAsBuilt: true });
await restore(root, process.argv.slice(2));
