// The web app manifest.

import { shopContext } from '../../lib/shop-context.ts';
import { defaultShopSettings } from '../../lib/shop-settings.ts';
import { appIcon, webAppManifest } from '../../lib/web-app-manifest.ts';
import type { Route } from './+types/web-manifest.ts';

export async function loader({ context }: Route.LoaderArgs) {
  const { store } = context.get(shopContext);
  const { data, error } = await store.tables.from('store_settings').select('store_name').single();
  const name = data?.store_name ?? defaultShopSettings.store_name;
  return webAppManifest(
    {
      id: '/',
      name,
      short_name: name,
      description: 'Khat-based juice and energy drinks, delivered ice-cold in Nairobi.',
      start_url: '/',
      scope: '/',
      categories: ['food', 'shopping'],
      shortcuts: [
        { name: 'Shop all drinks', short_name: 'Shop', url: '/shop', icons: [appIcon(192, 'any')] },
        { name: 'Track your order', short_name: 'Track', url: '/track-order', icons: [appIcon(192, 'any')] },
      ],
    },
    { isDefault: error !== null },
  );
}
