// The composition root: the only place where all modules are connected.
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ServerBuild } from 'react-router';
import { type ApiKeys, loadApiKeys } from '../backend/api-keys.ts';
import { type Backend, createBackend } from '../backend/backend.ts';
import type { Database } from '../backend/database/database.ts';
import { migrate } from '../backend/database/migrate.ts';
import { createFairShare } from '../backend/fair-share.ts';
import { AddressTaken, closeServer, listen } from '../backend/listen.ts';
import { createRenderedImages } from '../backend/storage/rendered-images.ts';
import { WrongSetting } from '../backend/wrong-setting.ts';
import type { Setup } from '../domain/payment-setup.ts';
import { renderedSides } from '../domain/product-image.ts';
import { certificate as simulatorCertificate } from '../simulators/daraja/certificate.ts';
import { defaultCredentials, defaultMerchant } from '../simulators/daraja/settings.ts';
import { startDarajaSimulator } from '../simulators/daraja/simulator.ts';
import { visitorHeaders, visitorToken } from '../supabase/functions/mobile-money/caller-address.ts';
import { createMobileMoney, type DarajaSettings } from '../supabase/functions/mobile-money/handler.ts';
import type { PublicConfig } from '../web/lib/shop-context.ts';
import { createStore, type Store } from '../web/lib/store.ts';
import { createBackups } from './backups/backups.ts';
import type { Middleware } from './browser-files.ts';
import type { Config } from './config.ts';
import { endBroken } from './end-broken.ts';
import { expireReservations } from './expire-reservations.ts';
import { ensureFirstAdmin, type FirstAdmin } from './first-admin.ts';
import { followPageChanges } from './follow-page-changes.ts';
import { checkHostedProject } from './hosted-project.ts';
import { createHttpServer } from './http-server.ts';
import { type Job, startJobs } from './jobs.ts';
import type { Log } from './log.ts';
import { createMessages } from './messages.ts';
import { createMetrics } from './metrics.ts';
import { sendDueMessages } from './outbox.ts';
import { emptyOutboxFolder } from './outbox-folder.ts';
import { PageCache } from './page-cache.ts';
import { changedTags } from './page-changes.ts';
import { createPageRenderer } from './page-renderer.ts';
import { createPageViews } from './page-views.ts';
import { paymentJobs } from './payment-jobs.ts';
import { createPaymentFetch } from './payment-queries.ts';
import { claimDatabase, givenKeys, openDatabase, openFiles } from './persistence.ts';
import { createReadiness } from './readiness.ts';
import { requestIdHeader } from './request-id.ts';
import { createShareImages } from './share-images/share-images.ts';
import { shopRealtime } from './shop-realtime.ts';
import { wordInvitations } from './staff-invitation.ts';
import { staffSignIn } from './staff-sign-in.ts';
import { visitorLimits } from './visitor-limits.ts';

/** Maximum bytes on disk of share images, several hundred kilobytes each. */
const shareImageBytes = 64 * 1024 * 1024;

export interface Shop {
  /** Its URL. */
  url: string;
  phonePageUrl: string | null;
  keys: Pick<ApiKeys, 'publishable' | 'secret'>;
  /** Outcome of creating the first staff account; null with a hosted project, unless ADMIN_EMAIL is set. */
  firstAdmin: FirstAdmin | null;
  close(): Promise<void>;
}

export interface ShopOptions {
  config: Config;
  /** The project's folder. */
  root: string;
  log: Log;
  build: ServerBuild | (() => Promise<ServerBuild>);
  mode: 'production' | 'development';
  /** The files for browsers: a folder, or a handler that serves them in development. */
  assets: string | Middleware;
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
  { config, root, log, build, mode, assets }: ShopOptions,
  closers: (() => Promise<unknown>)[],
): Promise<Omit<Shop, 'close'>> {
  const onError = (error: unknown, where: string, requestId?: string) =>
    log.error({ requestId, where, error: (error as Error)?.stack ?? String(error) }, 'internal error');

  const metrics = createMetrics();
  const database = config.supabase
    ? null
    : metrics.measureDatabase(await openDatabase(config, onError, root, (error) => endBroken(log, error)));
  if (database) closers.push(() => database.close());
  // Connections are closed after the services have sent close frames to WebSockets, for which they need the database.
  let drained = Promise.resolve();
  closers.push(() => drained);
  if (database) await prepareDatabase(database, config, root, log);

  // A hosted project has its own signing keys.
  const keys: ApiKeys = config.supabase
    ? { publishable: config.supabase.publishableKey, secret: config.supabase.secretKey, signingKeys: [] }
    : await loadApiKeys(config.dataDir, givenKeys(config));
  if (database) await claimDatabase(database, keys);

  // The port is known only once the server listens, and the simulator needs the callback URL.
  let ownUrl = '';
  const simulator = config.mpesa.environment === 'simulator' ? await startSimulator(config, log) : null;
  if (simulator) closers.push(() => simulator.close());

  const fairShare = createFairShare(database?.kind ?? 'postgresql');
  let backend: Backend | null = null;
  const messages = createMessages(config.messages, log);
  const serviceFetch: typeof fetch | undefined = database
    ? (input, init) => {
        if (!backend) throw new Error('the services are not started yet');
        return backend.fetch(new Request(input, init));
      }
    : undefined;
  const servicesUrl = config.supabase?.url ?? config.publicUrl;
  if (database) {
    const mobileMoney = createMobileMoney({
      database: {
        url: servicesUrl,
        secretKey: keys.secret,
        fetch: createPaymentFetch(fairShare.work, serviceFetch ?? fetch),
      },
      daraja: darajaSettings(config.mpesa, config.mpesaQueriesPerMinute, simulator?.url),
      callbackBaseUrl: () => `${simulator ? ownUrl : config.publicUrl}/functions/v1/mobile-money/notice`,
      publicCallbackBaseUrl: () =>
        `${config.port === 0 ? ownUrl : config.publicUrl}/functions/v1/mobile-money/notice`,
      requestIdOf: ({ headers }) => headers.get(requestIdHeader),
      log: ({ level, ...event }) => log[level](event, 'mobile money'),
    });
    backend = await createBackend({
      database,
      keys,
      // M-PESA sends its callbacks without a token.
      functions: { 'mobile-money': { handler: mobileMoney, verifyJwt: 'when-sent' } },
      files: openFiles(config),
      publicUrl: config.publicUrl,
      realtime: shopRealtime,
      auth: {
        settings: { ...staffSignIn(config), ...config.backend.authSettings },
        messages: wordInvitations(messages, {
          publicUrl: config.publicUrl,
          readName: async () => {
            const { rows } = await database.query<{ store_name: string }>(
              'select store_name from public.store_settings',
            );
            return rows[0]?.store_name ?? 'Jani Juice';
          },
        }),
      },
      allowedOrigins: [new URL(config.publicUrl).origin, ...config.backend.allowedOrigins],
      fairShare,
      visitorLimits,
      visitorImageSides: renderedSides,
      onError,
    });
    const started = backend;
    closers.push(() => started.close());
  }

  const publicConfig: PublicConfig = {
    url: config.supabase?.url ?? '',
    key: keys.publishable,
    publicUrl: config.publicUrl,
    isSimulated: simulator !== null,
    phonePageUrl: simulator ? `${simulator.url}/phone` : null,
    paymentMode: config.mpesa.environment,
    analytics: { url: config.analytics.url ?? '', domain: config.analytics.domain },
  };
  // In development a page may change without the database knowing.
  const pages = mode === 'production' ? new PageCache() : new PageCache(0);
  if (database) {
    const stopListening = await database.listen(
      'page_changes',
      (change) => {
        const tags = changedTags(change);
        if (tags) pages.forget(tags);
        else pages.clear();
      },
      () => pages.resume(),
      () => pages.pause(),
    );
    closers.push(stopListening);
  } else {
    closers.push(followPageChanges({ url: servicesUrl, secretKey: keys.secret }, pages, log));
  }

  const secretStore = createStore(
    { url: servicesUrl, key: keys.secret },
    serviceFetch ? { fetch: serviceFetch } : {},
  );
  metrics.readSockets = () => backend?.sockets ?? 0;
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

  // Ready only after the first staff account exists, so that staff can sign in as soon as the shop is ready.
  let hasOpened = false;
  const visitorTables = createStore(
    { url: servicesUrl, key: keys.publishable },
    serviceFetch ? { fetch: serviceFetch } : {},
  ).tables;
  const isReady = createReadiness(async () => {
    if (database) return database.query('select from platform.schema_migrations limit 1');
    const { error } = await visitorTables.from('store_settings').select('id').limit(1);
    if (error) throw new Error(error.message);
    return null;
  });
  const ownToken = database ? null : await visitorToken(keys.secret);
  const server = createHttpServer({
    backend,
    pages,
    renderPage: createPageRenderer({
      build,
      mode,
      config: publicConfig,
      servicesUrl,
      ...(serviceFetch ? { serviceFetch } : {}),
      nameVisitor: (address) =>
        ownToken === null
          ? { 'x-forwarded-for': address }
          : { [visitorHeaders.address]: address, [visitorHeaders.token]: ownToken },
      log,
    }),
    assets,
    pageViews,
    shareImages: createShareImages({
      tables: visitorTables,
      artFolder: typeof assets === 'string' ? assets : join(root, 'web/public'),
      servicesUrl,
      ...(serviceFetch ? { serviceFetch } : {}),
      drawn: createRenderedImages(join(config.dataDir, 'share-images'), shareImageBytes),
      queue: fairShare.images,
    }),
    fairShare,
    isReady: async () => hasOpened && (await isReady()),
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

  const jobs = [...paymentJobs(secretStore), ...shopJobs(secretStore, database)];
  if (simulator) jobs.push(registerAtSimulator(secretStore));
  if (ownToken !== null) jobs.push(registerStorefront(secretStore, ownToken));
  const sending = new AbortController();
  jobs.push({
    name: 'send messages to customers',
    everyMs: 2500,
    run: () =>
      sendDueMessages({
        tables: secretStore.tables,
        messages,
        publicUrl: config.publicUrl,
        log,
        signal: sending.signal,
      }),
    async stop() {
      sending.abort();
    },
  });
  jobs.push({
    name: 'delete old files of the outbox folder',
    everyMs: 60 * 60 * 1000,
    firstAfterMs: 60_000,
    async run() {
      const { outbox, outboxDays } = config.messages;
      const deleted = await emptyOutboxFolder(outbox, { days: outboxDays, maxFiles: 10_000 });
      if (deleted > 0) log.info({ deleted }, 'old files of the outbox folder deleted');
    },
  });
  // A hosted project makes its own backups.
  if (database && config.makesBackups)
    jobs.push(await backUpNightly(database, config, log, onError, closers));
  closers.push(startJobs(jobs, log, metrics));
  const makeFirstAdmin = () =>
    ensureFirstAdmin({
      store: secretStore,
      servicesUrl,
      secretKey: keys.secret,
      ...(serviceFetch ? { serviceFetch } : {}),
      ...config.firstAdmin,
    });
  let firstAdmin: FirstAdmin | null = null;
  if (database) firstAdmin = await makeFirstAdmin();
  else if (config.firstAdmin.isChosen) {
    // A project that does not answer yet must not stop the start.
    firstAdmin = await makeFirstAdmin().catch((error: unknown) => {
      if (error instanceof WrongSetting) throw error;
      log.error({ error: String(error) }, 'the first staff account was not created');
      return null;
    });
  }
  if (firstAdmin?.outcome === 'taken') {
    log.warn(
      'there is no staff account, and ADMIN_EMAIL belongs to an existing account: set another, or add its id to admin_profiles',
    );
  }
  hasOpened = true;
  if (config.supabase) void reportRequirements(config.supabase, config, log);
  return {
    url: config.port === 0 ? ownUrl : config.publicUrl,
    phonePageUrl: publicConfig.phonePageUrl,
    keys,
    firstAdmin,
  };
}

async function prepareDatabase(database: Database, config: Config, root: string, log: Log): Promise<void> {
  const applied = await migrate(database, [
    { name: 'platform', folder: join(root, 'backend/platform') },
    { name: 'shop', folder: join(root, 'supabase/migrations') },
  ]);
  if (applied.length > 0) log.info({ applied: applied.length }, 'database migrated');
  if (config.seed !== 'demo') return;
  const seed = await readFile(join(root, 'supabase/seed.sql'), 'utf8');
  await database.transaction(async (session) => {
    // Only a new shop gets the demo catalogue, from one process.
    await session.query(`select pg_advisory_xact_lock(hashtext('seed'))`);
    const { rows } = await session.query<{ is_empty: boolean }>(
      `select not exists (select from platform.schema_migrations where source = 'seed')
         and not exists (select from public.products) and not exists (select from public.categories)
         and not exists (select from public.orders) as is_empty`,
    );
    if (!rows[0]?.is_empty) return;
    await session.execute(seed);
    await session.query(
      `insert into platform.schema_migrations (source, version, hash) values ('seed', 'demo', '')`,
    );
    log.info('demo catalogue loaded');
  });
}

async function startSimulator(config: Config, log: Log): Promise<{ url: string; close(): Promise<void> }> {
  const port = config.mpesa.environment === 'simulator' ? config.mpesa.port : 0;
  try {
    return await startDarajaSimulator({
      port,
      host: '127.0.0.1',
      ledgerFile: join(config.dataDir, 'daraja-simulator.jsonl'),
    });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    // Another process of this shop may have started it.
    const url = `http://127.0.0.1:${port}`;
    const answer = await fetch(`${url}/simulator/ledger`).catch(() => null);
    if (!answer?.ok) throw new AddressTaken(`Port ${port} is taken; set SIMULATOR_PORT to a free one.`);
    log.info({ url }, 'the simulator already runs');
    return { url, close: async () => {} };
  }
}

function darajaSettings(
  mpesa: Config['mpesa'],
  queriesPerMinute: number,
  simulatorUrl: string | undefined,
): DarajaSettings {
  if ('isHosted' in mpesa) throw new Error('the payment function of a hosted project has its own settings');
  if (mpesa.environment === 'simulator') {
    return {
      baseUrl: simulatorUrl ?? '',
      ...defaultCredentials,
      transactionType: mpesa.transactionType,
      ...(mpesa.transactionType === 'CustomerBuyGoodsOnline' ? { partyB: defaultMerchant.tillNumber } : {}),
      initiator: {
        name: defaultMerchant.initiatorName,
        password: defaultMerchant.initiatorPassword,
        certificate: simulatorCertificate,
      },
      nominatedNumber: defaultMerchant.nominatedNumber,
      queriesPerMinute,
    };
  }
  return {
    queriesPerMinute,
    baseUrl:
      mpesa.environment === 'production' ? 'https://api.safaricom.co.ke' : 'https://sandbox.safaricom.co.ke',
    consumerKey: mpesa.consumerKey,
    consumerSecret: mpesa.consumerSecret,
    shortcode: mpesa.shortcode,
    passkey: mpesa.passkey,
    transactionType: mpesa.transactionType,
    ...(mpesa.till ? { partyB: mpesa.till } : {}),
    ...(mpesa.initiator ? { initiator: mpesa.initiator } : {}),
    ...(mpesa.nominatedNumber ? { nominatedNumber: mpesa.nominatedNumber } : {}),
  };
}

function shopJobs(store: Store, database: Database | null): Job[] {
  const jobs: Job[] = [
    expireReservations(store.tables),
    {
      name: 'delete personal data after its retention period',
      everyMs: 60 * 60 * 1000,
      async run() {
        const { error } = await store.tables.rpc('forget_old_rows');
        if (error) throw new Error(error.message);
      },
    },
  ];
  if (database) {
    jobs.push({
      name: 'delete expired rows of the services',
      everyMs: 60 * 60 * 1000,
      async run() {
        await database.query('select realtime.prune_messages()');
        await database.query('select auth.prune()');
      },
    });
  }
  return jobs;
}

/** Logs what a hosted project lacks; the shop starts anyway, and `/readyz` is 503 until the tables exist. */
async function reportRequirements(
  project: NonNullable<Config['supabase']>,
  { mpesa }: Config,
  log: Log,
): Promise<void> {
  const requirements = await checkHostedProject(project, mpesa.environment);
  for (const { name, problem, remedy } of requirements) {
    if (problem) log.warn({ requirement: name, problem, remedy }, 'the hosted project is not complete');
  }
}

/** Lets the hosted project accept the addresses of visitors that this server names. */
function registerStorefront({ tables }: Store, token: string): Job {
  return {
    name: 'register at the hosted project',
    everyMs: 6 * 60 * 60 * 1000,
    firstAfterMs: 0,
    async run() {
      const token_hash = createHash('sha256').update(token).digest('hex');
      const { error } = await tables.rpc('register_storefront', { token_hash });
      if (error) throw new Error(error.message);
    },
  };
}

/**
 * Registers the C2B URLs with the simulator at each start, because the port may change. For the real M-PESA the operator does it
 * once (docs/operating.md).
 */
function registerAtSimulator(store: Store): Job {
  return {
    name: 'register at the simulator',
    everyMs: 6 * 60 * 60 * 1000,
    firstAfterMs: 0,
    async run() {
      const { data } = await store.functions.invoke<{ setup?: Setup }>('mobile-money', {
        body: { action: 'describe-setup' },
      });
      // The function of a hosted project may use the real M-PESA.
      if (data?.setup?.environment !== 'simulator') return;
      const { error } = await store.functions.invoke('mobile-money', { body: { action: 'register-till' } });
      if (error) throw error;
    },
  };
}

async function backUpNightly(
  database: Database,
  config: Config,
  log: Log,
  onError: (error: unknown, where: string) => void,
  closers: (() => Promise<unknown>)[],
): Promise<Job> {
  const backups = createBackups({
    database,
    databaseUrl: config.databaseListenUrl ?? config.databaseUrl,
    dataDir: config.dataDir,
    keepsFiles: config.s3 === null,
    log,
  });
  const stopListening = await database.listen('backup_requests', () => {
    backups.run().catch((error: unknown) => onError(error, 'backups'));
  });
  closers.push(stopListening);
  return {
    name: 'back up',
    everyMs: 10 * 60 * 1000,
    // Delayed, so that it does not slow down the first pages.
    firstAfterMs: 3 * 60 * 1000,
    run: () => backups.runIfDue(),
    stop: () => backups.close(),
  };
}
