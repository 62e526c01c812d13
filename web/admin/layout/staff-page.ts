// Shared by all pages of the staff area: title, exclusion from search engines, and the origin of the services.
import { redirectDocument } from 'react-router';
import type { StoreAddress } from '../../../supabase/store.ts';
import { openStaff, type Staff } from '../../lib/staff.ts';

const services = 'shop-services';

interface RootFacts {
  settings: { store_name: string };
  config: StoreAddress;
}

/**
 * A page's `meta`.
 * @param title of the page, to which the shop's name is added
 */
export function describeStaffPage(matches: readonly unknown[], title: string) {
  const facts = (matches[0] as { loaderData?: RootFacts } | undefined)?.loaderData;
  return [
    { title: `${title} · ${facts?.settings.store_name ?? 'Jani Juice'} Admin` },
    { name: 'robots', content: 'noindex, nofollow' },
    // Before the storefront's: browsers take the first.
    { tagName: 'link', rel: 'manifest', href: '/admin/app.webmanifest' },
    ...(facts
      ? [{ name: services, content: JSON.stringify({ url: facts.config.url, key: facts.config.key }) }]
      : []),
  ];
}

/**
 * The staff client, for loaders. Browser only.
 * @throws a redirect that reloads the page if the visit began outside of the staff area, whose document contains the
 * origin of the services
 */
export function staffFor(request: Request): Staff {
  const named = document.querySelector<HTMLMetaElement>(`meta[name="${services}"]`)?.content;
  if (!named) throw redirectDocument(request.url);
  return openStaff(JSON.parse(named) as StoreAddress);
}
