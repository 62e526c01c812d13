// The composition root: the only place where all modules are connected.
import { statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { closeServer, listen } from '@jani-juice/backend/http';
import { createFairShare } from '@jani-juice/backend/limits';
import { type ApiKeys, loadApiKeys, WrongSetting } from '@jani-juice/backend/settings';
import { createImageProcess, createRenderedImages } from '@jani-juice/backend/storage';
import type { ServerBuild } from 'react-router';
import { visitorHeaders, visitorToken } from '../supabase/functions/mobile-money/caller-address.ts';
import { createStore, type Store } from '../supabase/store.ts';
import type { PublicConfig } from '../web/lib/shop-context.ts';
import type { Middleware } from './http/browser-files.ts';
import { createHttpServer } from './http/http-server.ts';
import { createSharedFetch, jobCalls } from './http/shared-calls.ts';
import { startJobs } from './jobs/jobs.ts';
import { shopJobs } from './jobs/shop-jobs.ts';
import { createMessages } from './messages/messages.ts';
import { createCertificateReader } from './monitoring/certificate.ts';
import { exitForRestart } from './monitoring/end-broken.ts';
import type { Log } from './monitoring/log.ts';
import { createMetrics } from './monitoring/metrics.ts';
import { createOutageLog, type OutageLog } from './monitoring/outage-log.ts';
import { createReadiness } from './monitoring/readiness.ts';
import { packBuild } from './pages/build-files/archive.ts';
import { createBuildFiles } from './pages/build-files/build-files.ts';
import { openBuildStore } from './pages/build-files/build-store.ts';
import { followPageChanges } from './pages/follow-page-changes.ts';
import { PageCache } from './pages/page-cache.ts';
import { changedTags } from './pages/page-changes.ts';
import { createPageRenderer } from './pages/page-renderer.ts';
import { createPageViews } from './pages/page-views.ts';
import { createShareImages } from './pages/share-images/share-images.ts';
import { startServices } from './services.ts';
import type { Config } from './start/config.ts';
import {
  ensureFirstAdmin,
  type FirstAdmin,
  type FirstAdminOptions,
  retryFirstAdmin,
} from './start/first-admin.ts';
import { checkHostedProject } from './start/hosted-project.ts';
import { createServiceWatch } from './start/hosted-services.ts';
import { claimDatabase, openDatabase, readConfiguredKeys } from './start/persistence.ts';
import { prepareDatabase } from './start/prepare-database.ts';
import { startSimulator } from './start/simulator.ts';

/** Maximum bytes on disk of share images, several hundred kilobytes each. */
const shareImageBytes = 64 * 1024 * 1024;
/** How long a hosted project that has answered counts as ready. A job that fails in the meantime ends it. */
const hostedReadinessMs = 20_000;
/** Maximum time for which a start waits for the store of the build's files. */
const buildFilesMs = 10_000;

export interface Shop {
  url: string;
  phonePageUrl: string | null;
  keys: Pick<ApiKeys, 'publishable' | 'secret'>;
  /** Outcome of creating the first staff account; null with a hosted project, unless ADMIN_EMAIL is set. */
  firstAdmin: FirstAdmin | null;
  close(): Promise<void>;
}

export interface ShopOptions {
  config: Config;
  /** The folder with the migrations and the blank database: a release, or the project's in development. */
  root: string;
  /** Name of the release, for `/readyz`. */
  release?: string;
  log: Log;
  build: ServerBuild | (() => Promise<ServerBuild>);
  mode: 'production' | 'development';
  /** The files for browsers: a folder, or a handler that serves them in development. */
  assets: string | Middleware;
  /** Receives the first staff account when it is created after the start. */
  onFirstAdmin?: (account: FirstAdmin) => void;
}

/**
 * Starts a shop: opens and migrates its database, starts its services, pages and jobs, and listens.
 * @throws when a step fails; started parts are stopped again
 */
export async function startShop(options: ShopOptions): Promise<Shop> {
  const closers: (() => Promise<unknown>)[] = [];
  const close = async () => {
    for (const closer of closers.splice(0).reverse()) await closer();
  };
  try {
    return { ...(await wire(options, closers)), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function wire(
  { config, root, release, log, build, mode, assets, onFirstAdmin = () => {} }: ShopOptions,
  closers: (() => Promise<unknown>)[],
): Promise<Omit<Shop, 'close'>> {
  let outages: OutageLog | null = null;
  const onError = (error: unknown, where: string, requestId?: string) => {
    if (outages?.note(error)) return;
    log.error({ requestId, where, error: (error as Error)?.stack ?? String(error) }, 'internal error');
  };
  const metrics = createMetrics();

  // Database and keys; a hosted project has its own.
  const database = config.supabase
    ? null
    : metrics.measureDatabase(
        await openDatabase(config, onError, root, (error) => exitForRestart(log, error)),
      );
  if (database) closers.push(() => database.close());
  if (database?.kind === 'postgresql') {
    outages = createOutageLog(log, () => database.query('select 1'));
    closers.push(async () => outages?.stop());
  }
  // Connections are closed after the services have sent close frames to WebSockets, for which they need the database.
  let drained = Promise.resolve();
  closers.push(() => drained);
  if (database) await prepareDatabase(database, config, root, log);
  const keys: ApiKeys = config.supabase
    ? { publishable: config.supabase.publishableKey, secret: config.supabase.secretKey, signingKeys: [] }
    : await loadApiKeys(config.dataDir, readConfiguredKeys(config));
  if (database) await claimDatabase(database, keys);

  // Services: in this process, or those of the project.
  const simulator = config.mpesa.environment === 'simulator' ? await startSimulator(config, log) : null;
  if (simulator) closers.push(() => simulator.close());
  const fairShare = createFairShare(database?.kind ?? 'postgresql');
  const imageProcess = createImageProcess();
  closers.push(() => imageProcess.close());
  const messages = createMessages(config.messages, log);
  let ownUrl = '';
  const backend =
    database &&
    (await startServices({
      config,
      database,
      keys,
      messages,
      fairShare,
      imageProcess,
      simulatorUrl: simulator?.url ?? null,
      ownUrl: () => ownUrl,
      log,
      onError,
    }));
  if (backend) closers.push(() => backend.close());
  const servicesUrl = config.supabase?.url ?? config.publicUrl;
  const serviceFetch: typeof fetch | null =
    backend && ((input, init) => backend.fetch(new Request(input, init)));
  const transport = serviceFetch ? { serviceFetch } : {};
  const storeWith = (key: string, fetchServices = serviceFetch) =>
    createStore({ url: servicesUrl, key }, fetchServices ? { fetch: fetchServices } : {});
  const secretStore: Store = {
    ...storeWith(keys.secret),
    // Not its functions: they may wait for M-PESA, and would keep a place of the queue.
    tables: storeWith(keys.secret, serviceFetch && createSharedFetch(fairShare.work, jobCalls, serviceFetch))
      .tables,
  };
  const visitorTables = storeWith(keys.publishable).tables;

  // Pages, cached until the database changes. In development a page may change without the database knowing.
  const pages = mode === 'production' ? new PageCache() : new PageCache(0);
  let readServices = async (): Promise<Record<string, boolean>> => ({});
  let isListening = false;
  if (database) {
    closers.push(
      await database.listen(
        'page_changes',
        (change) => {
          const tags = changedTags(change);
          if (tags) pages.forget(tags);
          else pages.clear();
        },
        () => {
          isListening = true;
          pages.resume();
        },
        () => {
          isListening = false;
          pages.pause();
        },
      ),
    );
  } else {
    const changes = followPageChanges({ url: servicesUrl, secretKey: keys.secret }, pages, log);
    closers.push(() => changes.close());
    readServices = createServiceWatch({ url: servicesUrl, publishableKey: keys.publishable }, () =>
      changes.isFollowing(),
    );
  }
  metrics.readServices = () => readServices();
  metrics.readSockets = () => backend?.sockets ?? 0;
  metrics.readListening = () => (database?.kind === 'postgresql' ? isListening : null);
  metrics.readDisk = async () => {
    const { bavail, blocks, bsize } = await statfs(config.dataDir);
    return { free: bavail * bsize, size: blocks * bsize };
  };
  metrics.readCertificateEnd = createCertificateReader(config.publicUrl);
  metrics.readShop = async () => {
    const { data, error } = await secretStore.tables.rpc('shop_metrics');
    if (error) throw new Error(error.message);
    return data;
  };
  const pageViews = createPageViews({
    async record(views) {
      const { error } = await secretStore.tables.rpc('record_page_views', { views });
      if (error) throw new Error(error.message);
    },
    onError: (error) => onError(error, 'page views'),
  });
  closers.push(() => pageViews.close());

  // The files of this build are stored before a page of it is sent: the next request may reach a process with another build.
  const buildFiles =
    typeof assets === 'string'
      ? createBuildFiles(
          openBuildStore({ servicesUrl, secretKey: keys.secret, ...transport }),
          await packBuild(assets),
        )
      : null;
  // A store that does not answer delays the start only for a time; the job tries again.
  await Promise.race([
    buildFiles?.renew().catch((error: unknown) => onError(error, 'files of this build')),
    wait(buildFilesMs, undefined, { ref: false }),
  ]);

  // HTTP. Ready only after the first staff account exists, so that staff can sign in as soon as the shop is ready.
  let hasOpened = false;
  const readiness = createReadiness(
    async () => {
      if (database) return database.query('select from platform.schema_migrations limit 1');
      const { error } = await visitorTables.from('store_settings').select('id').limit(1);
      if (error) throw new Error(error.message);
      return null;
    },
    database ? 0 : hostedReadinessMs,
  );
  const storefrontToken = database ? null : visitorToken(keys.secret);
  const publicConfig: PublicConfig = {
    url: config.supabase?.url ?? '',
    key: keys.publishable,
    publicUrl: config.publicUrl,
    isSimulated: simulator !== null,
    phonePageUrl: simulator ? `${simulator.url}/phone` : null,
    paymentMode: config.mpesa.environment,
    analytics: { url: config.analytics.url ?? '', domain: config.analytics.domain },
  };
  const server = createHttpServer({
    backend,
    pages,
    renderPage: createPageRenderer({
      build,
      mode,
      config: publicConfig,
      servicesUrl,
      ...transport,
      pages,
      nameVisitor: (address) =>
        storefrontToken === null
          ? { 'x-forwarded-for': address }
          : { [visitorHeaders.address]: address, [visitorHeaders.token]: storefrontToken },
      log,
    }),
    assets,
    ...(buildFiles ? { buildFiles } : {}),
    ...(release ? { release } : {}),
    pageViews,
    shareImages: createShareImages({
      tables: visitorTables,
      artFolder: typeof assets === 'string' ? assets : join(root, 'web/public'),
      servicesUrl,
      ...transport,
      drawn: createRenderedImages(join(config.dataDir, 'share-images'), shareImageBytes),
      queue: fairShare.images,
      imageProcess,
      onError: (error) => onError(error, 'share images'),
    }),
    fairShare,
    isReady: async () => hasOpened && (await readiness.isReady()),
    async unavailableServices() {
      const services = Object.entries(await readServices());
      return services.flatMap(([name, isUp]) => (isUp ? [] : [name]));
    },
    metrics,
    secretKey: keys.secret,
    trustedProxies: config.trustedProxies,
    publicUrl: config.publicUrl,
    log,
  });
  await listen(server, config);
  closers.push(async () => {
    drained = closeServer(server);
  });
  const address = server.address();
  const port = address && typeof address === 'object' ? address.port : config.port;
  ownUrl = `http://127.0.0.1:${port}`;

  const jobs = await shopJobs({
    config,
    root,
    store: secretStore,
    database,
    messages,
    usesSimulator: simulator !== null,
    buildFiles,
    storefrontToken,
    log,
    onError,
    onUnavailable: () => readiness.forget(),
  });
  closers.push(startJobs(jobs, log, metrics));
  const makeFirstAdmin = () =>
    createFirstAdmin(config, log, {
      store: secretStore,
      servicesUrl,
      secretKey: keys.secret,
      ...transport,
      ...config.firstAdmin,
    });
  const firstAdmin = await makeFirstAdmin().catch((error: unknown) => {
    if (!config.supabase || error instanceof WrongSetting) throw error;
    // A project that does not answer yet does not stop the start.
    log.error({ error: String(error) }, 'the first staff account was not created; it is tried again');
    closers.push(startJobs([retryFirstAdmin(makeFirstAdmin, onFirstAdmin)], log, metrics));
    return null;
  });
  hasOpened = true;
  if (config.supabase) void reportRequirements(config.supabase, config, root, log);
  return {
    url: config.port === 0 ? ownUrl : config.publicUrl,
    phonePageUrl: publicConfig.phonePageUrl,
    keys,
    firstAdmin,
  };
}

/** Null with a hosted project, unless ADMIN_EMAIL is set. */
async function createFirstAdmin(
  config: Config,
  log: Log,
  options: FirstAdminOptions,
): Promise<FirstAdmin | null> {
  if (config.supabase && !config.firstAdmin.isChosen) return null;
  const account = await ensureFirstAdmin(options);
  if (account.outcome === 'taken') {
    log.warn(
      'there is no staff account, and ADMIN_EMAIL belongs to an existing account: set another, or add its id to admin_profiles',
    );
  }
  return account;
}

/** Logs what a hosted project lacks; the shop starts anyway, and `/readyz` is 503 until the tables exist. */
async function reportRequirements(
  project: NonNullable<Config['supabase']>,
  { mpesa, publicUrl }: Config,
  root: string,
  log: Log,
): Promise<void> {
  const requirements = await checkHostedProject(project, {
    environment: mpesa.environment,
    publicUrl,
    root,
    withProbe: false,
  });
  for (const { name, problem, remedy } of requirements) {
    if (problem) log.warn({ requirement: name, problem, remedy }, 'the hosted project is not complete');
  }
}
