// The shop's settings, which the root loader returns for every screen.
import { useRouteLoaderData } from 'react-router';
import type { loader } from '../../root.tsx';

export function useShop() {
  const shop = useRouteLoaderData<typeof loader>('root');
  if (!shop) throw new Error('The storefront is shown without the facts of the shop');
  return shop;
}

/** Address of a chat with the seller. */
export function chatLink(phone: string): string {
  return `https://wa.me/${phone.replace(/\D/g, '')}`;
}
