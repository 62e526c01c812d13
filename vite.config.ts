import { join } from 'node:path';
import { reactRouter } from '@react-router/dev/vite';
import tailwindcss from '@tailwindcss/vite';
import { defineConfig, type Plugin } from 'vite';
import { buildTarget } from './domain/browser-floor.ts';
import { scriptGroups } from './web/script-groups.ts';

/** Tailwind writes `not all and (width>=48rem)`, and the build lowers no range after `not`. */
const oldMediaQueries: Plugin = {
  name: 'old-media-queries',
  enforce: 'pre',
  transform: {
    filter: { id: /\.css(?:\?|$)/ },
    handler: (css) => ({ code: css.replaceAll(/\(width ?>= ?([\d.]+\w+)\)/g, '(min-width:$1)'), map: null }),
  },
};

/**
 * The router's package exports only its development build. Without its warnings the scripts of every page are smaller.
 */
const productionRouter: Plugin = {
  name: 'production-router',
  enforce: 'pre',
  apply: 'build',
  applyToEnvironment: ({ name }) => name === 'client',
  resolveId(source) {
    const file = { 'react-router': 'index', 'react-router/dom': 'dom-export' }[source];
    return file ? join(import.meta.dirname, `node_modules/react-router/dist/production/${file}.mjs`) : null;
  },
};

export default defineConfig({
  plugins: [tailwindcss(), oldMediaQueries, productionRouter, reactRouter()],
  publicDir: 'web/public',
  build: {
    target: 'es2022',
    cssTarget: buildTarget,
    modulePreload: {
      // The scripts of pages leave out the names of the files that these need: they take more bytes than the code.
      resolveDependencies: (file, files) =>
        /\/(?:quick-order|load-order-dialog|offline-reading|parts|missing-product|large-order|order-states|share-link|not-for-role|session-ended|undo-bar-content|list-options|after-first-screen|row-menu-items|status-menu)-/.test(
          file,
        )
          ? []
          : files,
    },
  },
  environments: {
    client: {
      build: {
        target: buildTarget,
        rolldownOptions: {
          output: {
            codeSplitting: { groups: scriptGroups },
          },
        },
      },
    },
  },
});
