// The composition root: the only place where all modules are connected.
import { statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { Backend } from '@jani-juice/backend';
import type { Database } from '@jani-juice/backend/database';
import { closeServer, listen } from '@jani-juice/backend/http';
import { createFairShare } from '@jani-juice/backend/limits';
import { type ApiKeys, loadApiKeys, WrongSetting } from '@jani-juice/backend/settings';
import { createImageProcess, createRenderedImages } from '@jani-juice/backend/storage';
import type { ServerBuild } from 'react-router';
import { visitorHeaders, visitorToken } from '../supabase/functions/mobile-money/caller-address.ts';
import type { Store } from '../supabase/store.ts';
import type { PublicConfig } from '../web/lib/shop-context.ts';
import type { Middleware } from './http/browser-files.ts';
import { createHttpServer } from './http/http-server.ts';
import { createStaffRoutes } from './http/staff-routes.ts';
import { startJobs } from './jobs/jobs.ts';
import { shopJobs } from './jobs/shop-jobs.ts';
import { createMessages } from './messages/messages.ts';
import { createCertificateReader } from './monitoring/certificate.ts';
import { exitForRestart } from './monitoring/end-broken.ts';
import type { Log } from './monitoring/log.ts';
import { createMetrics, type Metrics } from './monitoring/metrics.ts';
import { createOutageLog, type OutageLog } from './monitoring/outage-log.ts';
import { createReadiness } from './monitoring/readiness.ts';
import { packBuild } from './pages/build-files/archive.ts';
import { type BuildFiles, createBuildFiles } from './pages/build-files/build-files.ts';
import { openBuildStore } from './pages/build-files/build-store.ts';
import { type Following, followDatabase, followProject } from './pages/following.ts';
import { PageCache } from './pages/page-cache.ts';
import { createPageRenderer } from './pages/page-renderer.ts';
import { createPageViews } from './pages/page-views.ts';
import { createShareImages } from './pages/share-images/share-images.ts';
import { startServices } from './services.ts';
import { type Clients, openClients } from './start/clients.ts';
import {
  ensureFirstAdmin,
  type FirstAdmin,
  type FirstAdminOptions,
  retryFirstAdmin,
} from './start/first-admin.ts';
import { checkHostedProject } from './start/hosted/hosted-project.ts';
import { claimDatabase, openDatabase, readConfiguredKeys } from './start/persistence.ts';
import { preparePracticeRider } from './start/practice-rider.ts';
import { prepareDatabase } from './start/prepare-database.ts';
import { readRunningVersion } from './start/running-version.ts';
import type { Config } from './start/settings/config.ts';
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
  /** The page of the practice rider; null without simulated payments. */
  practiceRideUrl: string | null;
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
  const closers: Closers = [];
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

type Closers = (() => Promise<unknown>)[];

/** The steps of a start, in their order. Each that has something to close adds it to `closers`, which close in the other order. */
async function wire(options: ShopOptions, closers: Closers): Promise<Omit<Shop, 'close'>> {
  const { config, root, release, log, build, mode, assets, onFirstAdmin = () => {} } = options;
  const errors = createErrorReport(log);
  const metrics = createMetrics();
  const database = config.supabase ? null : await openShopDatabase(options, metrics, errors, closers);
  // Connections are closed after the services have sent close frames to WebSockets, for which they need the database.
  let drained = Promise.resolve();
  closers.push(() => drained);
  if (database) await prepareDatabase(database, config, root, log);
  const keys = await openKeys(config, database);

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
      onError: errors.note,
    }));
  if (backend) closers.push(() => backend.close());
  const services = openClients(config, keys, backend, fairShare);

  // In development a page may change without the database knowing.
  const pages = mode === 'production' ? new PageCache() : new PageCache(0);
  const following = database
    ? await followDatabase(database, pages)
    : followProject(services.url, keys, pages, log);
  closers.push(following.close);
  connectMetrics(metrics, { config, backend, following, store: services.secret });
  const pageViews = createPageViews({
    async record(views) {
      const { error } = await services.secret.tables.rpc('record_page_views', { views });
      if (error) throw new Error(error.message);
    },
    onError: (error) => errors.note(error, 'page views'),
  });
  closers.push(() => pageViews.close());
  const buildFiles = typeof assets === 'string' ? await keepBuildFiles(assets, services, keys, errors) : null;

  let hasOpened = false;
  const readiness = createReadiness(
    () => readAnything(database, services.visitor),
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
      servicesUrl: services.url,
      ...services.transport,
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
    staffRoutes: createStaffRoutes({
      version: await readRunningVersion(root, release),
      maySeeVersion: (token) => services.mayStaff(token, 'settings'),
      tables: services.secret.tables,
      backups: database ? join(config.dataDir, 'backups') : null,
    }),
    shareImages: createShareImages({
      tables: services.visitor,
      artFolder: typeof assets === 'string' ? assets : join(root, 'web/public'),
      servicesUrl: services.url,
      ...services.transport,
      drawn: createRenderedImages(join(config.dataDir, 'share-images'), shareImageBytes),
      queue: fairShare.images,
      imageProcess,
      onError: (error) => errors.note(error, 'share images'),
    }),
    fairShare,
    isReady: async () => hasOpened && (await readiness.isReady()),
    async unavailableServices() {
      const known = Object.entries(await following.readServices());
      return known.flatMap(([name, isUp]) => (isUp ? [] : [name]));
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
    store: services.secret,
    database,
    messages,
    usesSimulator: simulator !== null,
    buildFiles,
    storefrontToken,
    log,
    onError: errors.note,
    onUnavailable: () => readiness.forget(),
  });
  closers.push(startJobs(jobs, log, metrics));
  const makeFirstAdmin = () =>
    createFirstAdmin(config, log, {
      store: services.secret,
      servicesUrl: services.url,
      secretKey: keys.secret,
      ...services.transport,
      ...config.firstAdmin,
    });
  const firstAdmin = await makeFirstAdmin().catch((error: unknown) => {
    if (!config.supabase || error instanceof WrongSetting) throw error;
    // A project that does not answer yet does not stop the start.
    log.error({ error: String(error) }, 'the first staff account was not created; it is tried again');
    closers.push(startJobs([retryFirstAdmin(makeFirstAdmin, onFirstAdmin)], log, metrics));
    return null;
  });
  // Only now, so that staff can sign in as soon as the shop is ready.
  hasOpened = true;
  if (config.supabase) void reportRequirements(config.supabase, config, root, log);
  const url = config.port === 0 ? ownUrl : config.publicUrl;
  const practice = preparePracticeRider(services.secret, { isPractice: simulator !== null, url, log });
  return {
    url,
    // Only simulated payments have a link to wait for.
    practiceRideUrl: simulator ? await practice : null,
    phonePageUrl: publicConfig.phonePageUrl,
    keys,
    firstAdmin,
  };
}

interface ErrorReport {
  note: (error: unknown, where: string, requestId?: string) => void;
  /** Tells an outage of the database once, instead of once for every request. */
  watchOutages: (outages: OutageLog) => void;
}

function createErrorReport(log: Log): ErrorReport {
  let outages: OutageLog | null = null;
  return {
    note(error, where, requestId) {
      if (outages?.note(error)) return;
      log.error({ requestId, where, error: (error as Error)?.stack ?? String(error) }, 'internal error');
    },
    watchOutages(log) {
      outages = log;
    },
  };
}

async function openShopDatabase(
  { config, root, log }: ShopOptions,
  metrics: Metrics,
  errors: ErrorReport,
  closers: Closers,
): Promise<Database> {
  const database = metrics.measureDatabase(
    await openDatabase(config, errors.note, root, (error) => exitForRestart(log, error)),
  );
  closers.push(() => database.close());
  if (database.kind === 'postgresql') {
    const outages = createOutageLog(log, () => database.query('select 1'));
    errors.watchOutages(outages);
    closers.push(async () => outages.stop());
  }
  return database;
}

/** A hosted project has its own keys. */
async function openKeys(config: Config, database: Database | null): Promise<ApiKeys> {
  if (config.supabase) {
    const { publishableKey, secretKey } = config.supabase;
    return { publishable: publishableKey, secret: secretKey, signingKeys: [] };
  }
  const keys = await loadApiKeys(config.dataDir, readConfiguredKeys(config));
  if (database) await claimDatabase(database, keys);
  return keys;
}

function connectMetrics(
  metrics: Metrics,
  parts: {
    config: Config;
    backend: Backend | null;
    following: Following;
    store: Store;
  },
): void {
  const { config, backend, following, store } = parts;
  metrics.readServices = following.readServices;
  metrics.readSockets = () => backend?.sockets ?? 0;
  metrics.readListening = following.isListening;
  metrics.readDisk = async () => {
    const { bavail, blocks, bsize } = await statfs(config.dataDir);
    return { free: bavail * bsize, size: blocks * bsize };
  };
  metrics.readCertificateEnd = createCertificateReader(config.publicUrl);
  metrics.readShop = async () => {
    const { data, error } = await store.tables.rpc('shop_metrics');
    if (error) throw new Error(error.message);
    return data;
  };
}

/** Stores the files of this build before a page of it is sent: the next request may reach a process with another build. */
async function keepBuildFiles(
  assets: string,
  services: Clients,
  keys: ApiKeys,
  errors: ErrorReport,
): Promise<BuildFiles> {
  const store = openBuildStore({ servicesUrl: services.url, secretKey: keys.secret, ...services.transport });
  const buildFiles = createBuildFiles(store, await packBuild(assets));
  // A store that does not answer delays the start only for a time; the job tries again.
  await Promise.race([
    buildFiles.renew().catch((error: unknown) => errors.note(error, 'files of this build')),
    wait(buildFilesMs, undefined, { ref: false }),
  ]);
  return buildFiles;
}

/** @throws when the tables of the shop do not answer */
async function readAnything(database: Database | null, visitor: Store['tables']): Promise<unknown> {
  if (database) return database.query('select from platform.schema_migrations limit 1');
  const { error } = await visitor.from('store_settings').select('id').limit(1);
  if (error) throw new Error(error.message);
  return null;
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
