// `npm run backup`: makes a backup now, whether the shop runs or not.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, checkNode, installPackages, root } from './prepare.mjs';

checkNode();
await installPackages();
await build();
if (existsSync(join(root, '.env'))) process.loadEnvFile(join(root, '.env'));
const { backUp } = await import(pathToFileURL(join(root, 'build', 'service', 'backup-command.js')).href);
await backUp(root);
