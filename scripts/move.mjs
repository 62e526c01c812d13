// `npm run move -- --to <place>`: moves a stopped shop to another database.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, checkNode, installPackages, root } from './prepare.mjs';

checkNode();
await installPackages();
await build();
if (existsSync(join(root, '.env'))) process.loadEnvFile(join(root, '.env'));
const { move } = await import(pathToFileURL(join(root, 'build', 'service', 'backup-command.js')).href);
await move(root, process.argv.slice(2));
