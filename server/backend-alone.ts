// The standalone services, without the shop: for another application, or for the official clients' test suites.
import { createServer } from 'node:http';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { getRequestListener } from '@hono/node-server';
import { createBackend } from '@jani-juice/backend';
import { migrate } from '@jani-juice/backend/database';
import {
  BoundedRequest,
  BoundedResponse,
  closeServer,
  establishClientAddress,
  limitConnections,
  listen,
  maxWebSockets,
} from '@jani-juice/backend/http';
import { type ApiKeys, loadApiKeys, WrongSetting } from '@jani-juice/backend/settings';
import { type DataServer, startDataServer } from '@jani-juice/backend/standalone';
import { createMessages } from './messages/messages.ts';
import { exitForRestart } from './monitoring/end-broken.ts';
import { type Log, openLog } from './monitoring/log.ts';
import { watchLoop } from './monitoring/watch-loop.ts';
import { claimDatabase, openDatabase, openFiles, readConfiguredKeys } from './start/persistence.ts';
import { type Config, readConfig } from './start/settings/config.ts';
import { describeStartFailure } from './start/start-failure.ts';

const serviceNames = ['auth', 'rest', 'storage', 'functions', 'realtime'] as const;

export interface BackendAloneOptions {
  config: Config;
  /** The folder with the platform's migrations and the blank database: a release, or the project's. */
  root: string;
  log: Log;
  /** A folder of the application's own `*.sql` files, applied after the platform's. */
  migrations?: string | undefined;
  /** The service that also answers below `/`, for clients that expect no gateway. */
  rootService?: (typeof serviceNames)[number] | undefined;
}

export interface BackendAlone {
  url: string;
  keys: Pick<ApiKeys, 'publishable' | 'secret'>;
  close(): Promise<void>;
}

/**
 * Starts the services alone: database, migrations, and everything under `/auth/v1`, `/rest/v1`, `/storage/v1`,
 * `/realtime/v1`.
 * @throws errors that `describeStartFailure` describes
 */
export async function startBackendAlone(options: BackendAloneOptions): Promise<BackendAlone> {
  const { config, root, log, migrations, rootService } = options;
  const onError = (error: unknown, where: string) =>
    log.error({ where, error: (error as Error)?.stack ?? String(error) }, 'internal error');
  const database = await openDatabase(config, onError, root, (error) => exitForRestart(log, error));
  try {
    await migrate(database, [
      { name: 'platform', folder: join(root, 'packages/backend/platform') },
      ...(migrations ? [{ name: 'application', folder: migrations }] : []),
    ]);
    const keys = await loadApiKeys(config.dataDir, readConfiguredKeys(config));
    await claimDatabase(database, keys);
    const backend = await createBackend({
      database,
      keys,
      functions: {},
      files: openFiles(config),
      publicUrl: config.publicUrl,
      auth: { settings: config.backend.authSettings, messages: createMessages(config.messages, log) },
      realtime: { limits: { connections: maxWebSockets() } },
      allowedOrigins: [new URL(config.publicUrl).origin, ...config.backend.allowedOrigins],
      onError,
    });
    const web = getRequestListener(
      (request) => {
        const url = new URL(request.url);
        if (url.pathname === '/healthz') return new Response('ok\n');
        if (!rootService || backend.serves(url.pathname)) return backend.fetch(request);
        url.pathname = `/${rootService}/v1${url.pathname}`;
        return backend.fetch(new Request(url, request));
      },
      { overrideGlobalObjects: false },
    );
    const server = createServer(
      { IncomingMessage: BoundedRequest, ServerResponse: BoundedResponse },
      (request, response) => {
        establishClientAddress(request, config.trustedProxies);
        void web(request, response);
      },
    );
    server.on('upgrade', (request, socket, head) => {
      socket.on('error', () => socket.destroy());
      establishClientAddress(request, config.trustedProxies);
      backend.upgrade(request, socket, head);
    });
    limitConnections(server, config.trustedProxies);
    await listen(server, config);
    const address = server.address();
    const port = address && typeof address === 'object' ? address.port : config.port;
    return {
      url: config.port === 0 ? `http://127.0.0.1:${port}` : config.publicUrl,
      keys,
      async close() {
        const drained = closeServer(server);
        await backend.close();
        await drained;
        await database.close();
      },
    };
  } catch (error) {
    await database.close();
    throw error;
  }
}

/**
 * Runs the services until SIGINT or SIGTERM. Besides the shop's settings it reads MIGRATIONS and ROOT_SERVICE. With
 * PGRST_DB_URI it runs the data service only.
 * @param root the project's folder. All files but settings and data are those of the release that this program belongs to
 */
export async function main(root: string): Promise<void> {
  const release = dirname(dirname(fileURLToPath(import.meta.url)));
  let backend: { url: string; close(): Promise<void> };
  const dataConfigured = Boolean(process.env.PGRST_DB_URI?.trim());
  try {
    const text = (name: string) => process.env[name]?.trim() || undefined;
    const rootService = serviceNames.find((name) => name === text('ROOT_SERVICE'));
    if (text('ROOT_SERVICE') && !rootService) {
      throw new WrongSetting(`ROOT_SERVICE takes ${serviceNames.join(' or ')}.`);
    }
    const migrations = text('MIGRATIONS');
    const log = openLog(text('LOG_LEVEL') ?? 'info');
    backend = dataConfigured
      ? reloadedBySignals(await startDataServer(process.env, log))
      : await startBackendAlone({
          config: readConfig(process.env, root),
          root: release,
          log,
          migrations: migrations && resolve(root, migrations),
          rootService,
        });
    if (!dataConfigured) void watchLoop(log);
  } catch (error) {
    process.stderr.write(`\nThe services were not started. ${describeStartFailure(error)}\n`);
    process.exitCode = 1;
    return;
  }
  process.stdout.write(`\n  The services answer at ${backend.url}\n`);
  if (!dataConfigured) process.stdout.write('  Their keys are in keys.json of DATA_DIR.\n\n');
  const stop = async () => {
    setTimeout(() => process.exit(1), 10_000).unref();
    await backend.close();
    process.exit(0);
  };
  process.once('SIGINT', stop);
  process.once('SIGTERM', stop);
}

/** In PostgREST SIGUSR1 reloads the schema and SIGUSR2 the settings; here each reloads both. */
function reloadedBySignals(data: DataServer): DataServer {
  for (const signal of ['SIGUSR1', 'SIGUSR2'] as const) process.on(signal, () => void data.reload());
  return data;
}
