// `npm run backend`: starts the standalone services, without the shop.
import { applyMemorySettings } from './memory-settings.mjs';
import { importProgram, root } from './prepare.mjs';

applyMemorySettings();
process.env.NODE_ENV = 'production';
const { main } = await importProgram('backend-alone');
await main(root);
