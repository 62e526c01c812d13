// The web app manifest of the panel: installed from a staff screen, the app opens Today.
import { shopContext } from '../../lib/shop-context.ts';
import { defaultShopSettings } from '../../lib/shop-settings.ts';
import { appIcon, webAppManifest } from '../../lib/web-app-manifest.ts';
import type { Route } from './+types/app-manifest.ts';

export async function loader({ context }: Route.LoaderArgs) {
  const { store } = context.get(shopContext);
  const { data, error } = await store.tables.from('store_settings').select('store_name').single();
  const shop = data?.store_name ?? defaultShopSettings.store_name;
  return webAppManifest(
    {
      id: '/admin',
      name: `${shop} Admin`,
      short_name: `${shop.split(' ')[0]} Admin`,
      description: 'Orders, deliveries and payments of the shop.',
      start_url: '/admin/today',
      scope: '/admin',
      shortcuts: [
        { name: 'Today', url: '/admin/today', icons: [appIcon(192, 'any')] },
        { name: 'Orders', url: '/admin/orders', icons: [appIcon(192, 'any')] },
      ],
    },
    { isDefault: error !== null },
  );
}
