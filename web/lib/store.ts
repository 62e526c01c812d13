// The storefront's way to its data: tables and procedures, and functions. The same on the server and in the browser.
import { FunctionsClient } from '@supabase/functions-js';
import { PostgrestClient } from '@supabase/postgrest-js';
import type { Database } from '../../supabase/types.ts';

export interface StoreAddress {
  /** Origin of the backend's services, without a slash at the end. */
  url: string;
  /** The publishable key. */
  key: string;
}

export interface Store {
  tables: PostgrestClient<Database>;
  functions: FunctionsClient;
}

export function createStore(
  address: StoreAddress,
  options: { fetch?: typeof fetch; headers?: Record<string, string> } = {},
): Store {
  const headers = { apikey: address.key, ...options.headers };
  const transport = options.fetch ? { fetch: options.fetch } : {};
  return {
    tables: new PostgrestClient<Database>(`${address.url}/rest/v1`, { headers, ...transport }),
    functions: new FunctionsClient(`${address.url}/functions/v1`, {
      headers,
      ...(options.fetch ? { customFetch: options.fetch } : {}),
    }),
  };
}
