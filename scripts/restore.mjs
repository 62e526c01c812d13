// `npm run restore -- <file> [--replace]`: restores a backup into a stopped shop.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, checkNode, installPackages, root } from './prepare.mjs';

checkNode();
await installPackages();
await build();
if (existsSync(join(root, '.env'))) process.loadEnvFile(join(root, '.env'));
const { restore } = await import(pathToFileURL(join(root, 'build', 'service', 'backup-command.js')).href);
await restore(root, process.argv.slice(2));
