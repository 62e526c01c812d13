// `npm start`: installs missing packages, builds changed sources, and starts the shop.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { applyMemorySettings } from './memory-settings.mjs';
import { build, checkNode, installPackages, root } from './prepare.mjs';

applyMemorySettings();
checkNode();
await installPackages();
await build();
process.env.NODE_ENV = 'production';
if (existsSync(join(root, '.env'))) process.loadEnvFile(join(root, '.env'));
const { main } = await import(pathToFileURL(join(root, 'build', 'service', 'main.js')).href);
await main(root);
