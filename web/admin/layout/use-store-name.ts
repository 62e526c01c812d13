// The shop's name.
import { useRouteLoaderData } from 'react-router';

export function useStoreName(): string {
  const facts = useRouteLoaderData<{ settings: { store_name: string } }>('root');
  return facts?.settings.store_name ?? 'Jani Juice';
}
