// The table-query service by itself over HTTP, on a free port and a temporary database, for tests.
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { getRequestListener } from '@hono/node-server';
import { PostgrestClient } from '@supabase/postgrest-js';
import { createDataService, type DataServiceOptions } from '../data/service.ts';
import type { Database } from '../database/database.ts';
import { PlainResponse } from '../http/plain-response.ts';
import { readPlain } from '../http/read-plain.ts';
import { platform, throwawayDatabase } from './throwaway.ts';

export interface OpenDataService {
  /** Ends with /rest/v1. */
  url: string;
  /** Internal errors. */
  errors: unknown[];
  /** The official client with a role. Default: `anon`. */
  // biome-ignore lint/suspicious/noExplicitAny: the client is driven without generated types
  client(role?: string): PostgrestClient<any, { PostgrestVersion: '14' }, any>;
  /** Rejects if there were internal errors. */
  close(): Promise<void>;
}

const folder = (path: string) => join(import.meta.dirname, path);
const library = { name: 'library', folder: folder('../data/fixture') };

/**
 * Starts it on the small library database of its tests. The header `x-role` sets the role.
 * @param additions SQL run before the service starts
 */
export async function openDataService(
  kind: Database['kind'],
  options: Partial<DataServiceOptions> = {},
  additions = '',
): Promise<OpenDataService> {
  const database = await throwawayDatabase(kind, [platform, library]);
  if (additions) await database.execute(additions);
  const errors: unknown[] = [];
  const service = await createDataService({
    database,
    schemas: ['public'],
    onError: (error) => errors.push(error),
    ...options,
  });
  const listener = getRequestListener(
    async (request, { incoming }) => {
      const caller = { claims: { role: request.headers.get('x-role') ?? 'anon' }, address: null };
      // Plain requests skip the Request object, as in the shop.
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
    errors,
    client: (role = 'anon') => new PostgrestClient(url, { headers: { 'x-role': role } }),
    async close() {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
      await service.close();
      await database.close();
      if (errors.length > 0) throw new AggregateError(errors, 'internal errors of the service');
    },
  };
}
