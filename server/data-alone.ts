// The data service by itself on a given PostgreSQL database, set as PostgREST is set.
import { createServer } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import { createDataService } from '../backend/data/service.ts';
import { openPostgresql } from '../backend/database/postgresql.ts';
import type { DataConfig } from './data-config.ts';
import { allowPage, answerPreflight } from './data-cors.ts';
import { createTokenCheck, RefusedToken } from './data-token.ts';
import { closeServer, listen } from './listen.ts';
import type { Log } from './log.ts';

/**
 * Starts it. The database is taken as it is: nothing is migrated.
 * @returns where it listens, and what ends it
 * @throws what `describeStartFailure` puts into words
 */
export async function startDataAlone(
  config: DataConfig,
  log: Log,
): Promise<{ url: string; close(): Promise<void> }> {
  const onFault = (error: unknown) => log.error({ error: (error as Error)?.stack ?? String(error) }, 'fault');
  const database = openPostgresql(config.databaseUrl, { onFault, poolSize: config.poolSize });
  try {
    const check = createTokenCheck(config.tokens);
    const service = await createDataService({ ...config.service, database, onFault });
    const answer = async (request: Request): Promise<Response> => {
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
    const web = getRequestListener(
      async (request) => {
        const preflight = answerPreflight(request, config.allowedOrigins);
        if (preflight) return preflight;
        const response = await answer(request);
        allowPage(request, response, config.allowedOrigins);
        const trace = config.traceHeader && request.headers.get(config.traceHeader);
        if (config.traceHeader && trace) response.headers.set(config.traceHeader, trace);
        return response;
      },
      { overrideGlobalObjects: false },
    );
    const server = createServer((request, response) => void web(request, response));
    await listen(server, config);
    const address = server.address();
    const port = address && typeof address === 'object' ? address.port : config.port;
    return {
      url: `http://${config.host}:${port}`,
      async close() {
        await closeServer(server);
        await service.close();
        await database.close();
      },
    };
  } catch (error) {
    await database.close();
    throw error;
  }
}
