import { join } from 'node:path';
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
                  priority: 9,
                  test: /node_modules\/(react|react-dom|react-router|scheduler)\/|\/web\/lib\/newer-apis\.ts|vite\/preload-helper|rolldown\/runtime/,
                },
                {
                  name: 'pieces',
                  priority: 8,
                  test: /\/web\/(root|ui\/(badge|button|dialog-history|error-screen|early-taps|flavour|icons|notice|price|product-image|reload)|lib\/(analytics|timeout)|storefront\/(layout\/(storefront-layout|header-search|navigation|newsletter-form|page-meta|test-mode-banner|side-drawer|site-footer|site-header|storefront-sheet|use-shop|wordmark)|discovery\/data-block|last-order\/last-order-slot|offline\/use-offline-reading|product\/product-card))\.tsx?|\/domain\/(money|phone-format|product-image)\.ts/,
                },
                {
                  name: 'order-pieces',
                  priority: 7,
                  test: /\/web\/storefront\/layout\/(share-button|use-dialog-code)\.tsx?/,
                },
                {
                  name: 'form-pieces',
                  priority: 7,
                  test: /\/web\/ui\/(field|spinner|toasts|use-action|use-is-online)\.tsx?|\/domain\/(order-link|tracking-number)\.ts/,
                },
                {
                  name: 'till-pieces',
                  priority: 7,
                  test: /\/web\/(ui\/copy-button|storefront\/payment\/pay-by-till)\.tsx/,
                },
                {
                  name: 'tracking-pieces',
                  priority: 7,
                  test: /\/web\/storefront\/tracking\/(reveal-form|tracked-order)\.tsx?|\/domain\/order-(date|meaning)\.ts/,
                },
                // What the storefront loads with an order and the panel with every page.
                { name: 'store', priority: 7, test: /\/web\/lib\/store\.ts|@oxc-project.runtime/ },
                { name: 'dialog-layers', priority: 6, test: /@radix-ui\/react-dialog/ },
                { name: 'dialogs', priority: 5, test: /\/web\/ui\/dialog-or-drawer\.tsx/ },
                // Every page of the panel, also without a session.
                {
                  name: 'staff',
                  priority: 4,
                  test: /\/web\/admin\/(early-requests|staff-page|use-store-name|use-attempt|panel-loading|layout\/staff-mark|sign-in\/(second-step|sign-in-layout))\.tsx?|\/web\/admin\/staff\.css/,
                },
                // Every screen of the panel: the layout, and what the lists share.
                {
                  name: 'panel',
                  priority: 3,
                  test: /\/web\/admin\/(layout\/staff-layout|list\/(export-button|list-filters|list-toolbar|phone-cell|row-list|use-list-filters|use-rows)|undo\/use-status-change|print\/print-list|status-(badge|select|change)|age|contact-link|use-last-value|use-part|use-dialog-url-close|uuid|deliveries\/rider-queries)\.tsx?/,
                },
                {
                  name: 'orders',
                  priority: 2,
                  test: /\/web\/admin\/orders\/(payment-badge|place|order-queries|refund-queries|refund-status|use-order-status)\.tsx?|\/domain\/delivery-status\.ts/,
                },
              ],
            },
          },
        },
      },
    },
  },
});
