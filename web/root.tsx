// The document around every page, and the settings that every page reads.
import './lib/browser/newer-apis.ts';
import {
  data,
  isRouteErrorResponse,
  Links,
  Meta,
  Outlet,
  redirect,
  Scripts,
  ScrollRestoration,
  type ShouldRevalidateFunctionArgs,
} from 'react-router';
import { settingsTag } from '../domain/cache-tags.ts';
import type { Route } from './+types/root.ts';
import { nairobiYear } from './lib/orders/order-date.ts';
import { linkWithoutPunctuation } from './lib/pasted-link.ts';
import { shopContext } from './lib/shop-context.ts';
import { defaultShopSettings, readPause, readShopSettings } from './lib/shop-settings.ts';
import { StorefrontSheet } from './storefront/layout/storefront-sheet.tsx';
import { DialogHistory } from './ui/dialog/dialog-history.ts';
import { EarlyTaps } from './ui/early-taps.tsx';
import { ErrorScreen } from './ui/error-screen.tsx';
import { useReloadTarget } from './ui/reload.ts';

export const links: Route.LinksFunction = () => [
  { rel: 'icon', href: '/favicon.svg', type: 'image/svg+xml' },
  { rel: 'manifest', href: '/manifest.webmanifest' },
];

/** A link with the punctuation of a chat leads to its page, whichever page that is. Short links redirect anyway. */
export const middleware: Route.MiddlewareFunction[] = [
  ({ request, url }, next) => {
    const isRead = request.method === 'GET' && !url.pathname.startsWith('/t/');
    const link = isRead ? linkWithoutPunctuation(url) : null;
    if (link) {
      // The link may contain an order's key.
      throw redirect(link, {
        headers: { 'Cache-Control': 'private, no-store', 'Referrer-Policy': 'no-referrer' },
      });
    }
    return next();
  },
];

export async function loader({ context }: Route.LoaderArgs) {
  const { store, config, addCacheTags, cacheUntil } = context.get(shopContext);
  addCacheTags(settingsTag);
  const { data: found, error } = await readShopSettings(store);
  const year = nairobiYear(new Date());
  // Without a database each page shows what is unavailable; such a page is never cached. A gateway in front of the
  // services may answer 200 with an empty body.
  if (error || typeof found?.store_name !== 'string') {
    return data({ settings: defaultShopSettings, config, year, pause: null }, { status: 503 });
  }
  // Pages with hours say them in words.
  const { orders_pause_reason, orders_paused_until, opening_hours, days_off, seller_address, ...settings } =
    found;
  const pause = readPause({ orders_pause_reason, orders_paused_until }, cacheUntil);
  return { settings, config, year, pause };
}

// The shop's settings rarely change during a visit: only pages that depend on them reload them.
export function shouldRevalidate({
  currentUrl,
  nextUrl,
  defaultShouldRevalidate,
}: ShouldRevalidateFunctionArgs) {
  // A check of the session, which reloads the page's data, must work without a network: only saved settings change these.
  const isSessionCheck = /^\/admin(?!\/settings$)/.test(currentUrl.pathname);
  return currentUrl.href === nextUrl.href && !isSessionCheck && defaultShouldRevalidate;
}

export const meta: Route.MetaFunction = ({ loaderData }) => [
  { title: loaderData?.settings.store_name ?? 'Jani Juice' },
];

export function Layout({ children }: { children: React.ReactNode }) {
  return (
    <html lang="en-KE">
      <head>
        <meta charSet="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="theme-color" content="#201135" />
        <Meta />
        <Links />
      </head>
      <body>
        <EarlyTaps />
        {children}
        <ScrollRestoration />
        <Scripts />
      </body>
    </html>
  );
}

export default function Root() {
  useReloadTarget();
  return (
    <>
      <DialogHistory />
      <Outlet />
    </>
  );
}

export function ErrorBoundary({ error }: Route.ErrorBoundaryProps) {
  return (
    <>
      <StorefrontSheet />
      <main className="grid min-h-dvh">
        <ErrorScreen
          isMissing={isRouteErrorResponse(error) && error.status === 404}
          isUnavailable={isRouteErrorResponse(error) && error.status >= 500}
        />
      </main>
    </>
  );
}
