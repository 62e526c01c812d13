// The shop's settings, which the root loader returns for every screen.
import { useRouteLoaderData } from 'react-router';
import type { loader } from '../../root.tsx';

export function useShop() {
  const shop = useRouteLoaderData<typeof loader>('root');
  if (!shop) throw new Error('The document has no loader data of the root');
  return shop;
}
