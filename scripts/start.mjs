// `npm start`: installs missing packages, builds changed sources, and starts the shop. With `--as-built`, as services and containers
// start it, it runs the current release whatever the sources are, and writes nothing but DATA_DIR.
import { importProgram, root } from './build/prepare.mjs';
import { applyMemorySettings } from './deployment/memory-settings.mjs';

applyMemorySettings();
process.env.NODE_ENV = 'production';
const { main } = await importProgram('main', { isAsBuilt: process.argv.includes('--as-built') });
await main(root);
