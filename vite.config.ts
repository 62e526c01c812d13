import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { reactRouter } from '@react-router/dev/vite';
import tailwindcss from '@tailwindcss/vite';
import { defineConfig, type Plugin } from 'vite';

const folder = new URL('./node_modules/react-router/dist/production/', import.meta.url);

/** Functions of features that are switched off here, and what is left of them. */
const leftOut: Record<string, string> = {
  // Tracing of the router, which would have to be asked for at its start.
  getRouteInstrumentationUpdates: 'return {};',
  instrumentClientSideRouter: 'return router;',
  // Routes discovered one by one: `routeDiscovery` says that the browser has them all from the beginning.
  getPatchRoutesOnNavigationFunction: 'return undefined;',
  useFogOFWarDiscovery: '',
  getPartialManifest: 'return null;',
  // Server components.
  RSCErrorHandler: 'return null;',
  RSCPrefetchPageLinksImpl: 'return null;',
};

/** What only the server writes into a page, as the browser's copy of it would. */
const serversScript =
  /let routeModulesScript = !isStatic \? " " : `[\s\S]*?import\(\$\{JSON\.stringify\(manifest\.entry\.module\)\}\);`;/;

export default defineConfig({
  plugins: [tailwindcss(), reactRouter(), leanRouter()],
  publicDir: 'web/public',
  build: { target: 'es2022' },
  environments: {
    client: {
      build: {
        rolldownOptions: {
          output: {
            // Few files: each costs a phone a request, and small ones compress badly.
            codeSplitting: {
              groups: [
                {
                  name: 'framework',
                  priority: 2,
                  test: /node_modules\/(react|react-dom|react-router|scheduler)\/|vite\/preload-helper/,
                },
                {
                  name: 'pieces',
                  priority: 1,
                  test: /\/web\/(ui\/(badge|button|icons|error-screen|early-taps|flavour|price|product-image)|lib\/analytics|storefront\/(layout\/(header-search|navigation|newsletter-form|page-meta|practice-strip|side-drawer|site-footer|site-header|storefront-sheet|use-shop|wordmark)|product\/product-card|discovery\/data-block|last-order\/last-order-room|offline\/use-offline-reading))\.tsx?|\/domain\/(money|phone|product-picture|catalogue)\.ts/,
                },
              ],
            },
          },
        },
      },
    },
  },
});

/**
 * The router for browsers without what the shop does not use: a phone fetches it before it can answer a tap.
 * Takes the router's production build, which its package does not offer to bundlers, and empties the functions above.
 * @throws while building, when the router has no such function any more
 */
function leanRouter(): Plugin {
  const files = new Map(
    [
      ['react-router', 'index.mjs'],
      ['react-router/dom', 'dom-export.mjs'],
    ].map(([name, file = '']) => [name, fileURLToPath(new URL(file, folder))]),
  );
  // The file that both are made of.
  const [, core] =
    /from "\.\/(chunk-\w+\.mjs)";\s*export \{/.exec(readFileSync(new URL('index.mjs', folder), 'utf8')) ?? [];
  return {
    name: 'lean-router',
    enforce: 'pre',
    apply: 'build',
    applyToEnvironment: ({ name }) => name === 'client',
    resolveId: (id) => files.get(id),
    transform: {
      filter: { id: /\/react-router\/dist\/production\// },
      handler(code, id) {
        if (!core || !id.endsWith(core)) return null;
        let lean = code;
        for (const [name, rest] of Object.entries(leftOut)) {
          const whole = new RegExp(`^(function ${name}\\([\\s\\S]*?\\) \\{\\n)[\\s\\S]*?^\\}$`, 'm');
          if (!whole.test(lean)) throw new Error(`the router has no function ${name} any more`);
          lean = lean.replace(whole, (_, head: string) => `${head}${rest}\n}`);
        }
        if (!serversScript.test(lean)) throw new Error('the router writes its scripts in another way now');
        lean = lean.replace(serversScript, 'let routeModulesScript = " ";');
        // Names for developers' tools keep components alive that nobody uses.
        lean = lean
          .replace(/^(\w+)\.displayName = "[^"]+";$/gm, '')
          .replace(/^(var \w+ = )(React\d*\.(?:forwardRef|createContext)\()/gm, '$1/* @__PURE__ */ $2');
        return { code: lean, map: null };
      },
    },
  };
}
