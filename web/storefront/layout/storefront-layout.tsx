// The frame of every storefront page: practice strip, header, content, footer.
import { useEffect, useRef } from 'react';
import { isRouteErrorResponse, Outlet, useLocation, useNavigation } from 'react-router';
import { reportPageView } from '../../lib/analytics.ts';
import { ErrorScreen } from '../../ui/error-screen.tsx';
import { reload } from '../../ui/reload.ts';
import { useOfflineReading } from '../offline/use-offline-reading.ts';
import { useOwnOrdersPart } from '../own-orders/use-own-orders-part.ts';
import type { Route } from './+types/storefront-layout.ts';
import { describePage } from './page-meta.ts';
import { PracticeStrip } from './practice-strip.tsx';
import { SiteFooter } from './site-footer.tsx';
import { SiteHeader } from './site-header.tsx';
import { StorefrontSheet } from './storefront-sheet.tsx';
import { useShop } from './use-shop.ts';

// Each page describes itself; what stands in for one that failed has a name as well.
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
  // The page's data could not be fetched, but the page may be cached on this device.
  useEffect(() => {
    if (isOffline && navigator.serviceWorker?.controller) reload();
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
  const isOnItsWay = useNavigation().state === 'loading';

  // A new page starts at its beginning, and with its title, for who listens to it, as it does for who looks at it. So does
  // the frame of an error, which takes the place of the one that had the focus. A link to a part of a page leads the focus to
  // that part.
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

  const { url, domain } = config.analytics;
  useEffect(() => reportPageView(url, domain, pathname), [url, domain, pathname]);

  return (
    <>
      <StorefrontSheet />
      <a
        href="#main"
        className="sr-only z-50 rounded-md bg-dusk-900 font-bold text-white focus:not-sr-only focus:fixed focus:top-3 focus:left-3 focus:px-5 focus:py-3"
      >
        Skip to content
      </a>
      <div
        aria-hidden="true"
        data-on-its-way={isOnItsWay || undefined}
        className="on-its-way pointer-events-none fixed inset-x-0 top-0 z-50 h-0.75 origin-left bg-ember-400"
      />
      {OfflineReading ? <OfflineReading pathname={pathname} /> : null}
      {OrdersWatch ? <OrdersWatch pathname={pathname} /> : null}
      {config.isSimulated ? <PracticeStrip phonePageUrl={config.phonePageUrl} /> : null}
      <SiteHeader />
      <main ref={main} id="main" tabIndex={-1} className="pb-24 outline-none! has-[[data-to-the-edge]]:pb-0">
        {children}
      </main>
      <SiteFooter />
    </>
  );
}
