// The context of every loader: data access and public configuration.
import { createContext } from 'react-router';
import type { Store, StoreAddress } from '../../supabase/store.ts';
import type { Analytics } from './browser/analytics.ts';

/** Configuration that is sent to browsers. */
export interface PublicConfig extends StoreAddress {
  /** The shop's public URL without a trailing slash. */
  publicUrl: string;
  /** Whether payments are simulated: the storefront then shows that no money moves. */
  isSimulated: boolean;
  /** URL of the simulator's phone page if payments are simulated. */
  phonePageUrl: string | null;
  /** `simulator` and M-PESA's `sandbox` move no money. */
  paymentMode: 'simulator' | 'sandbox' | 'production';
  /** The analytics service for page views. */
  analytics: Analytics;
}

export interface ShopContext {
  /** Queries as the anonymous visitor of the request. */
  store: Store;
  config: PublicConfig;
  /** Adds cache tags (`cache-tags.ts`) to the page, which is cached until one of them changes. */
  addCacheTags(...tags: string[]): void;
  /** Caches the page no longer than until this time, when it changes by itself. Null: it does not. */
  cacheUntil(time: string | null): void;
  /** Called with internal errors during the request. */
  onError(error: unknown): void;
}

export const shopContext = createContext<ShopContext>();
