// The layout of every storefront page: test-mode banner, header, content, footer.
import { useEffect, useRef } from 'react';
import { isRouteErrorResponse, Outlet, useLocation, useNavigation } from 'react-router';
import { reportPageView } from '../../lib/browser/analytics.ts';
import { serviceWorkers } from '../../lib/browser/browser-storage.ts';
import { ErrorScreen } from '../../ui/error-screen.tsx';
import { reload } from '../../ui/reload.ts';
import { SkipLink } from '../../ui/skip-link.tsx';
import { useOfflineReading } from '../offline/use-offline-reading.ts';
import { useQuickOrder } from '../order/use-quick-order.ts';
import { useOwnOrdersPart } from '../own-orders/use-own-orders-part.ts';
import type { Route } from './+types/storefront-layout.ts';
import { SiteHeader } from './header/site-header.tsx';
import { describePage } from './page-meta.ts';
import { PauseStrip } from './pause-strip.tsx';
import { SiteFooter } from './site-footer.tsx';
import { StorefrontSheet } from './storefront-sheet.tsx';
import { TestModeBanner } from './test-mode-banner.tsx';
import { useShop } from './use-shop.ts';

// Not in the panel, whose scripts and data come first.
export const links: Route.LinksFunction = () =>
  ['bricolage-grotesque', 'figtree'].map((name) => ({
    rel: 'preload',
    href: `/fonts/${name}.woff2`,
    as: 'font',
    type: 'font/woff2',
    crossOrigin: 'anonymous' as const,
  }));

// Each page has its own title; this is the title of error pages.
export const meta: Route.MetaFunction = ({ error, matches }) =>
  error
    ? describePage(matches, {
        title: isMissing(error) ? 'Page not found' : 'Something went wrong',
        description: 'This page cannot be shown.',
        path: '',
        isPrivate: true,
      })
    : [];

const isMissing = (error: unknown) => isRouteErrorResponse(error) && error.status === 404;

export default function StorefrontLayout() {
  return (
    <Frame>
      <Outlet />
    </Frame>
  );
}

export function ErrorBoundary({ error }: Route.ErrorBoundaryProps) {
  const isOffline = error instanceof TypeError && typeof navigator !== 'undefined' && !navigator.onLine;
  // The page's data could not be fetched, but the page itself may be cached on this device.
  useEffect(() => {
    if (isOffline && serviceWorkers()?.controller) reload();
  }, [isOffline]);
  return (
    <Frame>
      <ErrorScreen
        isMissing={isMissing(error)}
        isUnavailable={isRouteErrorResponse(error) && error.status >= 500}
        isOffline={isOffline}
      />
    </Frame>
  );
}

/** Whether a page of this document was hydrated before. */
let isAlive = false;

function Frame({ children }: { children: React.ReactNode }) {
  const { config } = useShop();
  const main = useRef<HTMLElement>(null);
  const { pathname, hash } = useLocation();
  const isNavigating = useNavigation().state === 'loading';

  // After a navigation: scrolls to the top and announces the title to screen readers, also for an error page, which
  // replaces the page that had focus. A link to a fragment moves the focus there.
  const shown = useRef(isAlive ? null : { pathname, hash });
  useEffect(() => {
    isAlive = true;
    const before = shown.current;
    shown.current = { pathname, hash };
    const isNewPage = before?.pathname !== pathname;
    if (isNewPage) main.current?.setAttribute('aria-label', document.title);
    const part = hash === before?.hash && !isNewPage ? null : document.getElementById(hash.slice(1));
    if (part) part.focus({ preventScroll: true });
    else if (isNewPage) main.current?.focus({ preventScroll: true });
  }, [pathname, hash]);

  const OfflineReading = useOfflineReading(pathname);
  const OrdersWatch = useOwnOrdersPart('OrdersWatch');
  const quickOrder = useQuickOrder(pathname);

  const { url, domain } = config.analytics;
  useEffect(() => reportPageView(url, domain, pathname), [url, domain, pathname]);

  return (
    <>
      <StorefrontSheet />
      <SkipLink />
      <div
        aria-hidden="true"
        data-loading={isNavigating || undefined}
        className="page-progress pointer-events-none fixed inset-x-0 top-0 z-50 h-0.75 origin-left bg-ember-400"
      />
      {OfflineReading ? <OfflineReading pathname={pathname} /> : null}
      {OrdersWatch ? <OrdersWatch pathname={pathname} /> : null}
      {config.isSimulated ? <TestModeBanner phonePageUrl={config.phonePageUrl} /> : null}
      <PauseStrip pathname={pathname} />
      <SiteHeader />
      <main ref={main} id="main" tabIndex={-1} className="pb-24 outline-none! has-[[data-to-the-edge]]:pb-0">
        {children}
      </main>
      <SiteFooter />
      {quickOrder}
    </>
  );
}
