// The standalone data service on a given PostgreSQL database, configured like PostgREST.
import { chmod } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { createDataService } from '../data/service.ts';
import type { Database } from '../database/database.ts';
import { openPostgresql } from '../database/postgresql/postgresql.ts';
import { closeServer, listen } from '../http/listen.ts';
import { PlainResponse } from '../http/plain-response.ts';
import { sendPlain } from '../http/send-plain.ts';
import { startAdminServer } from './admin-server.ts';
import { type DataConfig, readDataConfig } from './config.ts';
import { answerPreflight, pageHeaders } from './cors.ts';
import { readDatabaseSettings } from './database-settings.ts';
import { createTokenCheck, RefusedToken } from './token-check.ts';

/** The running service. */
export interface DataServer {
  url: string;
  /** Address of the health endpoints; null for none. */
  adminUrl: string | null;
  /** Reads settings, roles and schema again; on errors, which are logged, the previous ones stay. */
  reload(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Starts it. The database is used as is, without migrations.
 * @param environment the settings; those in the database take precedence
 * @throws errors that `describeStartFailure` describes
 */
export async function startDataServer(
  environment: Readonly<Record<string, string | undefined>>,
  log: Record<'error' | 'warn', (event: object, message: string) => void>,
): Promise<DataServer> {
  const config = readDataConfig(environment);
  if (!config) throw new Error('PGRST_DB_URI is not set');
  const onError = (error: unknown) =>
    log.error({ error: (error as Error)?.stack ?? String(error) }, 'internal error');
  const { poolSize, poolTimeout, namesStatements, unused } = config;
  if (unused.length > 0) log.warn({ settings: unused }, 'settings that have no effect in this service');
  const database = openPostgresql(config.databaseUrl, { onError, poolSize, poolTimeout, namesStatements });
  const ends: Array<() => Promise<unknown>> = [() => database.close()];
  const close = async () => {
    for (const end of ends.splice(0).reverse()) await end();
  };
  try {
    const read = () => readDatabaseSettings(database, environment);
    let current = await answersBy(await read(), database, onError);
    ends.push(() => current.close());
    let reloading = Promise.resolve();
    const reload = () => {
      reloading = reloading
        .then(async () => {
          const former = current;
          current = await answersBy(await read(), database, onError);
          await former.close();
        })
        .catch(onError);
      return reloading;
    };
    ends.push(() => reloading);
    if (config.channel !== null) {
      const onMessage = (payload: string) => {
        if (payload === 'reload config' || payload === '') void reload();
      };
      ends.push(await database.listen(config.channel, onMessage, () => void reload()));
    }
    const web = getRequestListener(
      async (request, { incoming, outgoing }) => {
        const answer = await current.answer(request);
        if (!(answer instanceof PlainResponse)) return answer;
        sendPlain(incoming as IncomingMessage, outgoing as ServerResponse, answer);
        return RESPONSE_ALREADY_SENT;
      },
      { overrideGlobalObjects: false },
    );
    const server = createServer((request, response) => void web(request, response));
    await listenAt(server, config);
    ends.push(() => closeServer(server));
    const subject = { server, database, schemaCache: () => current.schemaCache() };
    const admin = config.admin && (await startAdminServer(subject, config.admin));
    if (admin) ends.push(() => admin.close());
    const address = server.address();
    const port = address && typeof address === 'object' ? address.port : config.port;
    const url = config.socket ? `unix:${config.socket.path}` : `http://${config.host}:${port}`;
    return { url, adminUrl: admin?.url ?? null, reload, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function listenAt(server: Server, { host, port, socket }: DataConfig): Promise<void> {
  const settings = { port: 'PGRST_SERVER_PORT', host: 'PGRST_SERVER_HOST' };
  if (!socket) return listen(server, { host, port, settings });
  await listen(server, { path: socket.path });
  await chmod(socket.path, socket.mode);
}

/** The request handler for one state of the settings. */
async function answersBy(config: DataConfig, database: Database, onError: (error: unknown) => void) {
  const { allowedOrigins, traceHeader } = config;
  const check = createTokenCheck(config.tokens);
  const service = await createDataService({ ...config.service, database, onError });
  const serve = async (request: Request): Promise<Response | PlainResponse> => {
    try {
      const since = performance.now();
      const claims = await check(request.headers.get('authorization'));
      const checked = performance.now();
      const response = await service.answer(request, { claims, address: null });
      const timing = headerOf(response, 'server-timing');
      if (timing) setHeader(response, 'server-timing', `jwt;dur=${(checked - since).toFixed(1)}, ${timing}`);
      return response;
    } catch (error) {
      if (error instanceof RefusedToken) return error.response();
      onError(error);
      return new PlainResponse(500, {}, null);
    }
  };
  return {
    async answer(request: Request): Promise<Response | PlainResponse> {
      const preflight = answerPreflight(request, allowedOrigins);
      if (preflight) return preflight;
      const response = await serve(request);
      for (const [name, value] of Object.entries(pageHeaders(request, allowedOrigins))) {
        setHeader(response, name, value);
      }
      const trace = traceHeader && request.headers.get(traceHeader);
      if (traceHeader && trace) setHeader(response, traceHeader.toLowerCase(), trace);
      return response;
    },
    schemaCache: () => service.schemaCache,
    close: () => service.close(),
  };
}

function headerOf({ headers }: Response | PlainResponse, name: string): string | null {
  return headers instanceof Headers ? headers.get(name) : [headers[name] ?? []].flat().join(', ') || null;
}

/** @param name in lower case */
function setHeader({ headers }: Response | PlainResponse, name: string, value: string): void {
  if (headers instanceof Headers) headers.set(name, value);
  else headers[name] = value;
}
