// `npm run build`: builds what `npm start` needs, without starting.
import { build, checkNode, installPackages } from './prepare.mjs';

checkNode();
await installPackages();
await build();
