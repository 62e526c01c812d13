// Health endpoints of the standalone data service on their own port.
import { createServer, type Server } from 'node:http';
import type { Database } from '../database/database.ts';
import { closeServer, listen } from '../http/listen.ts';

/** Sources of the health reports. */
export interface AdminSubject {
  /** The request server; not listening means not live. */
  server: Server;
  database: Database;
  /** The schema cache. */
  schemaCache(): unknown;
}

const mapsAsObjects = (_: string, value: unknown) =>
  value instanceof Map ? Object.fromEntries(value) : value;

/**
 * Answers `/live`, `/ready` and `/schema_cache`, with PostgREST's statuses.
 * @returns its address, and a function that closes it
 */
export async function startAdminServer(
  { server, database, schemaCache }: AdminSubject,
  at: { host: string; port: number },
): Promise<{ url: string; close(): Promise<void> }> {
  const statusOf = async (path: string): Promise<number> => {
    if (path === '/schema_cache') return 200;
    if (path !== '/live' && path !== '/ready') return 404;
    if (!server.listening) return 500;
    if (path === '/live') return 200;
    return database.query('select').then(
      () => 200,
      () => 503,
    );
  };
  const admin = createServer(async (request, response) => {
    const path = new URL(request.url ?? '/', 'http://admin').pathname;
    response.statusCode = await statusOf(path);
    if (path !== '/schema_cache') response.end();
    else
      response
        .setHeader('content-type', 'application/json')
        .end(JSON.stringify(schemaCache(), mapsAsObjects));
  });
  const settings = { port: 'PGRST_ADMIN_SERVER_PORT', host: 'PGRST_ADMIN_SERVER_HOST' };
  await listen(admin, { ...at, settings });
  const address = admin.address();
  const port = address && typeof address === 'object' ? address.port : at.port;
  return { url: `http://${at.host}:${port}`, close: () => closeServer(admin) };
}
