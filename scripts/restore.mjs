// `npm run restore -- <file> [--replace]`: puts a backup in the place of the data of a shop that does not run.
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
