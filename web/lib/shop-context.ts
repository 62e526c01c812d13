// What the server hands to every loader: where the data is, and what may be told to the browser.
import { createContext } from 'react-router';
import type { Analytics } from './analytics.ts';
import type { Store, StoreAddress } from './store.ts';

/** Facts of this installation that a browser may know. */
export interface PublicConfig extends StoreAddress {
  /** What the outside calls the shop, without a slash at the end. */
  publicUrl: string;
  /** Whether payments are pretended: then the storefront says plainly that no money moves. */
  isSimulated: boolean;
  /** Address of the simulator's phone page, when payments are pretended. */
  phonePageUrl: string | null;
  /** Whose money moves: nobody's, M-PESA's own pretence, or the customers'. */
  paymentMode: 'simulator' | 'sandbox' | 'production';
  /** Who counts page views. */
  analytics: Analytics;
}

export interface ShopContext {
  /** Asks as the anonymous visitor whose request is being answered. */
  store: Store;
  config: PublicConfig;
  /** Names what a page shows (`page-facts.ts`), so that it is kept for as long as that stays true and no shorter. */
  madeFrom(...facts: string[]): void;
  /** Told of what went wrong on our side while the request was answered. */
  onFault(error: unknown): void;
}

export const shopContext = createContext<ShopContext>();
