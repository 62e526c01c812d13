// `npm run build`: what `npm start` would build, without starting.
import { build, checkNode, installPackages } from './prepare.mjs';

checkNode();
installPackages();
build();
