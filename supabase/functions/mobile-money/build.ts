// Names the build of the deployed function, so that `npm run hosted:check` recognises an outdated one.

/** Response header with the build. */
export const buildHeader = 'x-function-build';

/** `npm run build` replaces this with a hash of the bundle (vite.function.config.ts). */
const marker = 'build 0000000000000000';

/** Hash of the bundle. */
export const build = marker.slice('build '.length);
