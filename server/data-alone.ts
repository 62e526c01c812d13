// The data service by itself on a given PostgreSQL database, set as PostgREST is set.
import { chmod } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import { createDataService } from '../backend/data/service.ts';
import type { Database } from '../backend/database/database.ts';
import { openPostgresql } from '../backend/database/postgresql.ts';
import { startDataAdmin } from './data-admin.ts';
import { type DataConfig, readDataConfig } from './data-config.ts';
import { allowPage, answerPreflight } from './data-cors.ts';
import { readDataSettings } from './data-settings.ts';
import { createTokenCheck, RefusedToken } from './data-token.ts';
import { closeServer, listen } from './listen.ts';
import type { Log } from './log.ts';

/** The running service. */
export interface DataAlone {
  url: string;
  /** Where it tells how it is; null for nowhere. */
  adminUrl: string | null;
  /** Reads settings, roles and schema anew; what cannot be read or is wrong is logged, and all stays as it was. */
  reload(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Starts it. The database is taken as it is: nothing is migrated.
 * @param environment the settings; those that the database holds count more
 * @throws what `describeStartFailure` puts into words
 */
export async function startDataAlone(
  environment: Readonly<Record<string, string | undefined>>,
  log: Log,
): Promise<DataAlone> {
  const given = readDataConfig(environment);
  if (!given) throw new Error('PGRST_DB_URI is not set');
  const onFault = (error: unknown) => log.error({ error: (error as Error)?.stack ?? String(error) }, 'fault');
  const { poolSize, poolTimeout } = given;
  const database = openPostgresql(given.databaseUrl, { onFault, poolSize, poolTimeout });
  const ends: Array<() => Promise<unknown>> = [() => database.close()];
  const close = async () => {
    for (const end of ends.splice(0).reverse()) await end();
  };
  try {
    const read = () => readDataSettings(database, environment);
    let current = await answersBy(await read(), database, onFault);
    ends.push(() => current.close());
    let reloading = Promise.resolve();
    const reload = () => {
      reloading = reloading
        .then(async () => {
          const former = current;
          current = await answersBy(await read(), database, onFault);
          await former.close();
        })
        .catch(onFault);
      return reloading;
    };
    ends.push(() => reloading);
    if (given.channel !== null) {
      const onMessage = (payload: string) => {
        if (payload === 'reload config' || payload === '') void reload();
      };
      ends.push(await database.listen(given.channel, onMessage, () => void reload()));
    }
    const web = getRequestListener((request) => current.answer(request), { overrideGlobalObjects: false });
    const server = createServer((request, response) => void web(request, response));
    await listenAt(server, given);
    ends.push(() => closeServer(server));
    const subject = { server, database, schemaCache: () => current.schemaCache() };
    const admin = given.admin && (await startDataAdmin(subject, given.admin));
    if (admin) ends.push(() => admin.close());
    const address = server.address();
    const port = address && typeof address === 'object' ? address.port : given.port;
    const url = given.socket ? `unix:${given.socket.path}` : `http://${given.host}:${port}`;
    return { url, adminUrl: admin?.url ?? null, reload, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function listenAt(server: Server, { host, port, socket }: DataConfig): Promise<void> {
  if (!socket) return listen(server, { host, port });
  await new Promise<void>((done, fail) => {
    server.once('error', fail);
    server.listen(socket.path, done);
  });
  await chmod(socket.path, socket.mode);
}

/** What answers requests by one state of the settings. */
async function answersBy(config: DataConfig, database: Database, onFault: (error: unknown) => void) {
  const { allowedOrigins, traceHeader } = config;
  const check = createTokenCheck(config.tokens);
  const service = await createDataService({ ...config.service, database, onFault });
  const serve = async (request: Request): Promise<Response> => {
    try {
      const since = performance.now();
      const claims = await check(request.headers.get('authorization'));
      const checked = performance.now();
      const response = await service.fetch(request, { claims, address: null });
      const timing = response.headers.get('server-timing');
      if (timing) {
        response.headers.set('Server-Timing', `jwt;dur=${(checked - since).toFixed(1)}, ${timing}`);
      }
      return response;
    } catch (error) {
      if (error instanceof RefusedToken) return error.response(request.method);
      onFault(error);
      return new Response(null, { status: 500 });
    }
  };
  return {
    async answer(request: Request): Promise<Response> {
      const preflight = answerPreflight(request, allowedOrigins);
      if (preflight) return preflight;
      const response = await serve(request);
      allowPage(request, response, allowedOrigins);
      const trace = traceHeader && request.headers.get(traceHeader);
      if (traceHeader && trace) response.headers.set(traceHeader, trace);
      return response;
    },
    schemaCache: () => service.schemaCache,
    close: () => service.close(),
  };
}
