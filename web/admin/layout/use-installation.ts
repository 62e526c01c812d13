// Configuration of this installation that the document contains.
import { useRouteLoaderData } from 'react-router';
import type { PublicConfig } from '../../lib/shop-context.ts';

export function useInstallation(): PublicConfig {
  const facts = useRouteLoaderData<{ config: PublicConfig }>('root');
  if (!facts) throw new Error('The document has no loader data of the root');
  return facts.config;
}
