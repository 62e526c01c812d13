import { reactRouter } from '@react-router/dev/vite';
import tailwindcss from '@tailwindcss/vite';
import { defineConfig, type Plugin } from 'vite';
import { buildTarget } from './web/lib/browser-floor.ts';

/** Tailwind writes `not all and (width>=48rem)`, and the build lowers no range after `not`. */
const oldMediaQueries: Plugin = {
  name: 'old-media-queries',
  enforce: 'pre',
  transform: {
    filter: { id: /\.css(?:\?|$)/ },
    handler: (css) => ({ code: css.replaceAll(/\(width ?>= ?([\d.]+\w+)\)/g, '(min-width:$1)'), map: null }),
  },
};

export default defineConfig({
  plugins: [tailwindcss(), oldMediaQueries, reactRouter()],
  publicDir: 'web/public',
  build: { target: 'es2022', cssTarget: buildTarget },
  environments: {
    client: {
      build: {
        target: buildTarget,
        rolldownOptions: {
          output: {
            // Few files: each costs a phone a request, and small ones compress badly. A group takes with it what its files need and no
            // group above it has: the pieces of every page come first.
            codeSplitting: {
              groups: [
                {
                  name: 'framework',
                  priority: 4,
                  test: /node_modules\/(react|react-dom|react-router|scheduler)\/|\/web\/lib\/newer-apis\.ts|vite\/preload-helper|rolldown\/runtime/,
                },
                {
                  name: 'pieces',
                  priority: 3,
                  test: /\/web\/(root|ui\/(button|dialog-history|error-screen|early-taps|flavour|icons|notice|price|product-image|reload)|lib\/(analytics|timeout)|storefront\/(layout\/(storefront-layout|header-search|navigation|newsletter-form|page-meta|test-mode-banner|side-drawer|site-footer|site-header|storefront-sheet|use-shop|wordmark)|discovery\/data-block|last-order\/last-order-slot|offline\/use-offline-reading|product\/product-card))\.tsx?|\/domain\/(money|phone-format|product-image)\.ts/,
                },
                {
                  name: 'order-pieces',
                  priority: 2,
                  test: /\/web\/storefront\/layout\/(share-button|use-dialog-code)\.tsx?/,
                },
                {
                  name: 'form-pieces',
                  priority: 2,
                  test: /\/web\/ui\/(field|toasts)\.tsx|\/domain\/(order-link|tracking-number)\.ts/,
                },
                {
                  name: 'till-pieces',
                  priority: 1,
                  test: /\/web\/(ui\/copy-button|storefront\/payment\/pay-by-till)\.tsx/,
                },
                {
                  name: 'tracking-pieces',
                  priority: 1,
                  test: /\/web\/storefront\/tracking\/(reveal-form|tracked-order)\.tsx?|\/domain\/order-(date|meaning)\.ts/,
                },
              ],
            },
          },
        },
      },
    },
  },
});
