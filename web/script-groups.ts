// Which files of the screens share a script. Few scripts: each costs a phone a request, and small ones compress badly.
import { existsSync } from 'node:fs';
import { join } from 'node:path';

interface ScriptGroup {
  name: string;
  /** A group takes with it what its files need and no group of a higher priority has. */
  priority: number;
  test: RegExp;
}

/** @throws when a file is not there: its code would silently move to other scripts */
function group(
  name: string,
  priority: number,
  files: Readonly<Record<string, string>>,
  others: readonly RegExp[] = [],
): ScriptGroup {
  const paths = Object.entries(files).flatMap(([folder, names]) =>
    names.split(/\s+/).map((file) => `${folder}/${file}`),
  );
  for (const path of paths) {
    if (!existsSync(join(import.meta.dirname, '..', path)))
      throw new Error(`web/script-groups.ts names ${path}, which does not exist.`);
  }
  const ours = paths.map((path) => `/${path.replaceAll('.', '\\.')}(?:\\?|$)`);
  return { name, priority, test: new RegExp([...ours, ...others.map(({ source }) => source)].join('|')) };
}

export const scriptGroups: ScriptGroup[] = [
  // What every page needs, of the storefront and of the panel.
  group(
    'framework',
    9,
    {
      web: 'root.tsx',
      'web/lib/browser': 'browser-storage.ts newer-apis.ts',
      'web/ui': `badge.tsx button.tsx error-screen.tsx early-taps.tsx icons.tsx notice.tsx reload.ts skip-link.tsx
        use-validation-text.ts watch-in-view.ts`,
      'web/ui/dialog': 'dialog-history.ts native-dialog.ts',
      domain: 'count.ts money.ts timeout.ts',
      'domain/people': 'phone-format.ts',
      'domain/messages': 'whatsapp-link.ts',
    },
    [
      /node_modules\/(?:react|react-dom|react-router|scheduler)\//,
      /vite\/preload-helper/,
      /rolldown\/runtime/,
    ],
  ),
  // What every page of the storefront needs.
  group('pieces', 8, {
    'web/ui': 'flavour.tsx price.tsx product-image.tsx',
    'web/lib/browser': 'analytics.ts',
    'web/storefront/layout': `storefront-layout.tsx chat-link.ts navigation.ts page-meta.ts test-mode-banner.tsx site-footer.tsx
      storefront-sheet.tsx use-shop.ts`,
    'web/storefront/layout/header': 'header-search.tsx side-drawer.tsx site-header.tsx wordmark.tsx',
    'web/storefront/newsletter': 'newsletter-form.tsx',
    'web/storefront/discovery': 'data-block.tsx',
    'web/storefront/last-order': 'last-order-slot.tsx',
    'web/storefront/offline': 'use-offline-reading.ts',
    'web/storefront/product': 'product-card.tsx',
    'web/storefront/order': 'use-quick-order.ts',
    'domain/products': 'product-image.ts',
  }),
  group('order-pieces', 7, { 'web/storefront/layout': 'share-button.tsx use-dialog-code.ts' }),
  // The drinks and the typed text of an order, for its form and for "Order again".
  group('order-contents', 7, {
    'web/lib/orders': 'order-contents.ts',
    'web/storefront/order/form': 'order-memory.ts',
    'web/storefront/order/lines': 'order-lines.ts',
    'domain/orders': 'discount.ts',
  }),
  group('form-pieces', 7, {
    'web/ui': 'field.tsx spinner.tsx use-action.ts use-is-online.ts',
    'web/ui/toasts': 'toasts.tsx',
    // Not with the dialogs, whose code the first screen of the panel does not load.
    'web/ui/dialog': 'close-guard.ts',
    'domain/people': 'phone.ts',
    'domain/deliveries': 'delivery-promise.ts',
  }),
  // Links to orders and their numbers: neither the contact form nor the first screen of the panel has them.
  group('order-links', 7, { 'domain/orders': 'order-link.ts tracking-number.ts' }),
  group('till-pieces', 7, { 'web/ui': 'copy-button.tsx', 'web/storefront/payment': 'pay-by-till.tsx' }),
  group('tracking-pieces', 7, {
    'web/storefront/tracking': 'reveal-form.tsx tracked-order.ts',
    'web/lib/orders': 'order-date.ts order-meaning.ts',
  }),
  // What the storefront loads with an order and the panel with every page. Not `store.ts`, whose functions the panel does not call.
  group('tables', 8, { supabase: 'services-origin.ts' }, [
    /@supabase\/postgrest-js/,
    /@oxc-project.runtime/,
    /node_modules\/tslib\//,
  ]),
  group('dialog-layers', 6, {}, [/@radix-ui\/react-dialog/]),
  group('dialogs', 5, { 'web/ui/dialog': 'dialog-or-drawer.tsx' }),
  // Every page of the panel, also without a session.
  group('staff', 4, {
    'web/admin/data': 'early-requests.tsx',
    'web/lib': 'staff.ts',
    'web/admin/layout': 'staff-page.ts use-store-name.ts staff-mark.tsx staff.css',
    'web/admin/layout/roles': 'screen-areas.ts',
    'domain/people': 'staff-rights.ts',
    'web/admin/ui': 'panel-loading.tsx',
  }),
  // The pages without a session, and the auth client, which the other pages load after their first screen (`web/lib/staff.ts`).
  group(
    'sign-in',
    4,
    {
      'web/lib': 'staff-auth.ts',
      'web/admin/data': 'use-attempt.ts',
      'web/admin/sign-in': 'second-step.tsx sign-in-layout.tsx',
    },
    [/@supabase\/auth-js/],
  ),
  // Every screen of the panel: the layout, and what the lists share.
  group('panel', 3, {
    'web/admin/layout': 'staff-layout.tsx',
    'web/admin/list': `list-filters.tsx list-toolbar.tsx row-list.tsx row-menu.tsx saved-views.ts use-list-filters.ts
      use-row-keys.ts use-rows.ts use-selection.ts`,
    'web/admin/undo': 'undo-bar.tsx use-status-change.ts',
    'web/admin/status': 'status-badge.tsx status-select.tsx status-change.ts',
    'web/admin/ui': 'contact-link.tsx known-names.ts use-last-value.ts use-part.ts',
    'web/admin/ui/time': 'age.tsx',
    'web/admin/dialogs': 'use-dialog-url-close.ts uuid.ts',
    'web/admin/deliveries': 'rider-queries.ts',
  }),
  // What is done with a whole list.
  group('whole-lists', 2, {
    'web/admin/list': 'phone-cell.ts',
    'web/admin/list/export': 'export-button.tsx',
    'web/admin/print': 'print-list.tsx',
  }),
  group('orders', 2, {
    'web/admin/today': 'next-step-button.tsx use-next-rider.ts use-next-step.ts',
    'web/admin/orders': `contact-actions.ts drinks.tsx order-details.tsx place.ts order-queries.ts
      use-order-status.ts`,
    'web/admin/orders/list': 'order-columns.tsx',
    'web/admin/orders/payments': 'payment-badge.tsx',
    'web/admin/orders/refunds': 'refund-queries.ts',
    'web/admin/ui/time': 'due.tsx',
    'domain/deliveries': 'delivery-status.ts',
  }),
];
