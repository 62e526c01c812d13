// The storefront's data access: tables, procedures and functions, on the server and in the browser.
import { FunctionsClient } from '@supabase/functions-js';
import { PostgrestClient } from '@supabase/postgrest-js';
import { type StoreAddress, servicesOrigin } from './services-origin.ts';
import type { Database } from './types.ts';

export type { StoreAddress } from './services-origin.ts';

export interface Store {
  tables: PostgrestClient<Database>;
  functions: FunctionsClient;
}

/** A key's headers. Hosted projects accept legacy keys as bearer tokens only; the built-in services need only `apikey`. */
export function keyHeaders(key: string) {
  return { apikey: key, Authorization: `Bearer ${key}` };
}

export function createStore(
  address: StoreAddress,
  options: { fetch?: typeof fetch; headers?: Record<string, string> } = {},
): Store {
  const isHosted = address.url !== '' && !options.fetch;
  const headers = {
    ...(isHosted ? keyHeaders(address.key) : { apikey: address.key }),
    ...options.headers,
  };
  const origin = servicesOrigin(address);
  const transport = options.fetch ? { fetch: options.fetch } : {};
  return {
    tables: new PostgrestClient<Database>(`${origin}/rest/v1`, {
      headers,
      ...transport,
      // The server reads tables for pages, and retries would delay the visitor.
      retry: false,
    }),
    functions: new FunctionsClient(`${origin}/functions/v1`, {
      headers,
      ...(options.fetch ? { customFetch: options.fetch } : {}),
    }),
  };
}
