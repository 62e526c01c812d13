// The facts of this installation that the document came with.
import { useRouteLoaderData } from 'react-router';
import type { PublicConfig } from '../lib/shop-context.ts';

export function useInstallation(): PublicConfig {
  const facts = useRouteLoaderData<{ config: PublicConfig }>('root');
  if (!facts) throw new Error('A staff screen is shown without the facts of the shop');
  return facts.config;
}
