// The storefront's way to its data: tables and procedures, and functions. The same on the server and in the browser.
import { FunctionsClient } from '@supabase/functions-js';
import { PostgrestClient } from '@supabase/postgrest-js';
import type { Database } from '../../supabase/types.ts';

export interface StoreAddress {
  /** Origin of the backend's services, without a slash at the end; '' when it is the page's own, whatever its name. */
  url: string;
  /** The publishable key. */
  key: string;
}

export interface Store {
  tables: PostgrestClient<Database>;
  functions: FunctionsClient;
}

/** The services' origin, spelled out. */
export function servicesOrigin({ url }: StoreAddress): string {
  return url || window.location.origin;
}

export function createStore(
  address: StoreAddress,
  options: { fetch?: typeof fetch; headers?: Record<string, string> } = {},
): Store {
  // A hosted project takes its legacy keys as bearer tokens only; the built-in services need no second copy.
  const isHosted = address.url !== '' && !options.fetch;
  const headers = {
    apikey: address.key,
    ...(isHosted ? { Authorization: `Bearer ${address.key}` } : {}),
    ...options.headers,
  };
  const origin = servicesOrigin(address);
  const transport = options.fetch ? { fetch: options.fetch } : {};
  return {
    tables: new PostgrestClient<Database>(`${origin}/rest/v1`, {
      headers,
      ...transport,
      // Tables are read for pages on the server, and a page would keep its visitor waiting for the tries.
      retry: false,
    }),
    functions: new FunctionsClient(`${origin}/functions/v1`, {
      headers,
      ...(options.fetch ? { customFetch: options.fetch } : {}),
    }),
  };
}
