import { reactRouter } from '@react-router/dev/vite';
import tailwindcss from '@tailwindcss/vite';
import { defineConfig } from 'vite';
import { leanFramework } from './scripts/lean-framework.ts';

export default defineConfig({
  plugins: [tailwindcss(), reactRouter(), leanFramework()],
  publicDir: 'web/public',
  build: { target: 'es2022' },
  environments: {
    client: {
      build: {
        rolldownOptions: {
          output: {
            // Few files: each costs a phone a request, and small ones compress badly. A group takes with it what its files need and no
            // group above it has: the pieces of every page come first.
            codeSplitting: {
              groups: [
                {
                  name: 'framework',
                  priority: 4,
                  test: /node_modules\/(react|react-dom|react-router|scheduler)\/|vite\/preload-helper/,
                },
                {
                  name: 'order-pieces',
                  priority: 2,
                  test: /\/web\/(ui\/notice|lib\/remembered-orders|storefront\/layout\/(share-button|use-dialog-code))\.tsx?/,
                },
                {
                  name: 'form-pieces',
                  priority: 2,
                  test: /\/web\/ui\/(copy-button|field|toasts)\.tsx|\/domain\/order-link\.ts/,
                },
                {
                  name: 'tracking-pieces',
                  priority: 1,
                  test: /\/web\/storefront\/(tracking\/(order-sheet|payment-state|progress|reveal-form|tracked-order)|payment\/pay-by-till)\.tsx?/,
                },
                {
                  name: 'pieces',
                  priority: 3,
                  test: /\/web\/(ui\/(badge|button|icons|error-screen|early-taps|flavour|price|product-image)|lib\/(analytics|patience)|storefront\/(layout\/(header-search|navigation|newsletter-form|page-meta|practice-strip|side-drawer|site-footer|site-header|storefront-sheet|use-shop|wordmark)|product\/product-card|discovery\/data-block|last-order\/last-order-room|offline\/use-offline-reading))\.tsx?|\/domain\/(money|phone|product-picture)\.ts/,
                },
              ],
            },
          },
        },
      },
    },
  },
});
