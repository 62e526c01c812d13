// The document around every page, and the facts about the shop that every page reads.
import { data, isRouteErrorResponse, Links, Meta, Outlet, Scripts, ScrollRestoration } from 'react-router';
import type { Route } from './+types/root.ts';
import './app.css';
import { shopContext } from './lib/shop-context.ts';
import { EarlyTaps } from './ui/early-taps.tsx';
import { ErrorScreen } from './ui/error-screen.tsx';

export const links: Route.LinksFunction = () => [
  ...['bricolage-grotesque', 'figtree'].map((name) => ({
    rel: 'preload',
    href: `/fonts/${name}.woff2`,
    as: 'font',
    type: 'font/woff2',
    crossOrigin: 'anonymous' as const,
  })),
  { rel: 'icon', href: '/favicon.svg', type: 'image/svg+xml' },
];

export async function loader({ context }: Route.LoaderArgs) {
  const { store, config } = context.get(shopContext);
  const { data: settings, error } = await store.tables.from('store_settings').select().single();
  if (error) throw data(error.message, { status: 503 });
  return { settings, config, year: new Date().getFullYear() };
}

// The facts of the shop hardly ever change during a visit; a reload brings the new ones.
export const shouldRevalidate = () => false;

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
  return <Outlet />;
}

export function ErrorBoundary({ error }: Route.ErrorBoundaryProps) {
  return (
    <main className="grid min-h-dvh">
      <ErrorScreen isMissing={isRouteErrorResponse(error) && error.status === 404} />
    </main>
  );
}
