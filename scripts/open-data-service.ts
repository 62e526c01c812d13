// The table-query service alone, over HTTP on a free port, on a database that is thrown away, for tests.
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { getRequestListener } from '@hono/node-server';
import { PostgrestClient } from '@supabase/postgrest-js';
import { createDataService, type DataServiceOptions } from '../backend/data/service.ts';
import type { Database } from '../backend/database/database.ts';
import { throwawayDatabase } from '../backend/database/throwaway.ts';
import { PlainResponse } from '../backend/plain-response.ts';
import { readPlain } from '../server/read-plain.ts';

export interface OpenDataService {
  /** Ends in /rest/v1. */
  url: string;
  /** What went wrong inside; a test that expects nothing of the kind looks here. */
  faults: unknown[];
  /** The official client with a role. Default: `anon`. */
  // biome-ignore lint/suspicious/noExplicitAny: the client is driven without generated types
  client(role?: string): PostgrestClient<any, { PostgrestVersion: '14' }, any>;
  close(): Promise<void>;
}

const folder = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const platform = { name: 'platform', folder: folder('../backend/platform') };
const library = { name: 'library', folder: folder('../backend/data/fixture') };

/**
 * Opens it on the small library its own tests have. Who asks is whatever role the header `x-role` names.
 * @param additions SQL run before the service starts
 */
export async function openDataService(
  kind: Database['kind'],
  options: Partial<DataServiceOptions> = {},
  additions = '',
): Promise<OpenDataService> {
  const database = await throwawayDatabase(kind, [platform, library]);
  if (additions) await database.execute(additions);
  const faults: unknown[] = [];
  const service = await createDataService({
    database,
    schemas: ['public'],
    onFault: (error) => faults.push(error),
    ...options,
  });
  const listener = getRequestListener(
    async (request, { incoming }) => {
      const caller = { claims: { role: request.headers.get('x-role') ?? 'anon' }, address: null };
      // What the shop answers without a Request is answered without one here, too.
      const read = readPlain(incoming as IncomingMessage);
      const answer = await service.answer(read ?? request, caller);
      return answer instanceof PlainResponse ? answer.toResponse() : answer;
    },
    { overrideGlobalObjects: false },
  );
  const server = createServer((request, response) => void listener(request, response));
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/rest/v1`;
  return {
    url,
    faults,
    client: (role = 'anon') => new PostgrestClient(url, { headers: { 'x-role': role } }),
    async close() {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
      await service.close();
      await database.close();
    },
  };
}
