// `npm run build`: builds what `npm start` needs, without starting. With `--next`, as `npm run update` builds, the current release stays.
import { basename } from 'node:path';
import { build, checkNode, installPackages, root } from './build/prepare.mjs';
import { noteNext } from './releases/releases.mjs';

const isNext = process.argv.includes('--next');
checkNode();
await installPackages();
const release = await build({ isSwitched: !isNext });
if (isNext) noteNext(root, basename(release));
