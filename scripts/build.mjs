// `npm run build`: what `npm start` would build, without starting.
import { build, checkNode, installPackages } from './prepare.mjs';

checkNode();
await installPackages();
await build();
