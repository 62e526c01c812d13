// The web app manifest.

import { shopContext } from '../../lib/shop-context.ts';
import { defaultShopSettings } from '../../lib/shop-settings.ts';
import type { Route } from './+types/web-manifest.ts';

const icon = (side: number, purpose: 'any' | 'maskable') => ({
  src: `/icon-${side}.png`,
  sizes: `${side}x${side}`,
  type: 'image/png',
  purpose,
});

export async function loader({ context }: Route.LoaderArgs) {
  const { store } = context.get(shopContext);
  const { data, error } = await store.tables.from('store_settings').select('store_name').single();
  const name = data?.store_name ?? defaultShopSettings.store_name;
  const manifest = {
    id: '/',
    name,
    short_name: name,
    description: 'Khat-based juice and energy drinks, delivered ice-cold in Nairobi.',
    lang: 'en-KE',
    dir: 'ltr',
    start_url: '/',
    scope: '/',
    display: 'standalone',
    theme_color: '#201135',
    background_color: '#fdf8ef',
    categories: ['food', 'shopping'],
    icons: [
      { src: '/favicon.svg', sizes: 'any', type: 'image/svg+xml', purpose: 'any' },
      icon(192, 'any'),
      icon(512, 'any'),
      icon(192, 'maskable'),
      icon(512, 'maskable'),
    ],
    shortcuts: [
      { name: 'Shop all drinks', short_name: 'Shop', url: '/shop', icons: [icon(192, 'any')] },
      { name: 'Track your order', short_name: 'Track', url: '/track-order', icons: [icon(192, 'any')] },
    ],
  };
  return Response.json(manifest, {
    // Without a database it has the default name and is not cached.
    status: error ? 503 : 200,
    headers: { 'content-type': 'application/manifest+json; charset=utf-8' },
  });
}
