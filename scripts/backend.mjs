// `npm run backend`: starts the standalone services, without the shop.
import { importProgram, root } from './build/prepare.mjs';
import { applyMemorySettings } from './deployment/memory-settings.mjs';

applyMemorySettings();
process.env.NODE_ENV = 'production';
const { main } = await importProgram('backend-alone');
await main(root);
