// All background jobs of a shop.
import { createHash } from 'node:crypto';
import type { Database } from '@jani-juice/backend/database';
import { publicFetch } from '@jani-juice/backend/http';
import type { Store } from '../../supabase/store.ts';
import { backUpNightly } from '../backups/nightly-backup.ts';
import type { OutgoingMessages } from '../messages/messages.ts';
import { sendDueMessages } from '../messages/outbox.ts';
import { emptyOutboxFolder } from '../messages/outbox-folder.ts';
import { sendDuePushes } from '../messages/push.ts';
import type { Log } from '../monitoring/log.ts';
import { type BuildFiles, storeBuildFiles } from '../pages/build-files/build-files.ts';
import type { Config } from '../start/settings/config.ts';
import { registerAtSimulator } from '../start/simulator.ts';
import { createDueJobs, type DueJobs, whenDue } from './due-jobs.ts';
import { expireReservations } from './expire-reservations.ts';
import type { Job } from './jobs.ts';

interface JobDependencies {
  config: Config;
  /** Has the secret key. */
  store: Store;
  /** Null with a hosted project. */
  database: Database | null;
  /** The folder with the migrations: a release, or the project's. */
  root: string;
  messages: OutgoingMessages;
  usesSimulator: boolean;
  /** The files of this build; null in development. */
  buildFiles: BuildFiles | null;
  /** Token with which this server reports IP addresses of visitors to a hosted project; null without one. */
  storefrontToken: string | null;
  log: Log;
  onError(error: unknown, where: string): void;
  /** The database did not answer. */
  onUnavailable(): void;
}

const hourMs = 60 * 60 * 1000;

/** Lists the jobs of a shop. */
export async function shopJobs(dependencies: JobDependencies): Promise<Job[]> {
  const { config, root, store, database, usesSimulator, buildFiles, storefrontToken, log, onError } =
    dependencies;
  const dueJobs = createDueJobs(store.tables, dependencies.onUnavailable);
  return [
    ...paymentJobs(store, dueJobs),
    whenDue(dueJobs, 'expire-reservations', expireReservations(store.tables)),
    whenDue(dueJobs, 'send-messages', sendMessages(dependencies)),
    whenDue(dueJobs, 'send-notices', sendNotices(dependencies)),
    {
      name: 'delete personal data after its retention period',
      everyMs: hourMs,
      async run() {
        const { error } = await store.tables.rpc('forget_old_rows');
        if (error) throw new Error(error.message);
      },
    },
    {
      name: 'learn how long deliveries take',
      everyMs: hourMs,
      firstAfterMs: 90_000,
      async run() {
        const { error } = await store.tables.rpc('learn_delivery_times');
        if (error) throw new Error(error.message);
      },
    },
    {
      name: 'delete old files of the outbox folder',
      everyMs: hourMs,
      firstAfterMs: 60_000,
      async run() {
        const { outbox, outboxDays } = config.messages;
        const deleted = await emptyOutboxFolder(outbox, { days: outboxDays, maxFiles: 10_000 });
        if (deleted > 0) log.info({ deleted }, 'old files of the outbox folder deleted');
      },
    },
    ...(buildFiles ? [storeBuildFiles(buildFiles)] : []),
    ...(usesSimulator ? [registerAtSimulator(store)] : []),
    ...(storefrontToken === null ? [] : [registerStorefront(store, storefrontToken)]),
    ...(database ? [deleteExpiredRows(database), limitChangeLog(database)] : []),
    // A hosted project makes its own backups.
    ...(database && config.makesBackups ? [await backUpNightly(database, config, root, log, onError)] : []),
  ];
}

// Actions of the payment function.
const paymentActions = [
  { name: 'query open payments', action: 'query-open' },
  { name: 'send refunds', action: 'send-refunds' },
  { name: 'settle stored confirmations and callbacks', action: 'take-up-till' },
  { name: "pull M-PESA's statement", action: 'pull-statement', firstAfterMs: 45_000 },
] as const;

/** A hosted project bills every call of the function, so one process calls, and only when there is work. */
function paymentJobs({ functions }: Store, dueJobs: DueJobs): Job[] {
  return paymentActions.map(({ action, ...job }) =>
    whenDue(dueJobs, action, {
      ...job,
      async run() {
        const { error } = await functions.invoke('mobile-money', { body: { action } });
        if (error) throw error;
      },
    }),
  );
}

function sendMessages({ config, store, messages, log }: JobDependencies): Omit<Job, 'everyMs'> {
  const stopping = new AbortController();
  return {
    name: 'send messages to customers',
    run: () =>
      sendDueMessages({
        tables: store.tables,
        messages,
        publicUrl: config.publicUrl,
        log,
        signal: stopping.signal,
      }),
    async stop() {
      stopping.abort();
    },
  };
}

function sendNotices({ config, store, log }: JobDependencies): Omit<Job, 'everyMs'> {
  const stopping = new AbortController();
  return {
    name: 'send notices to devices of staff',
    run: () =>
      sendDuePushes({
        tables: store.tables,
        publicUrl: config.publicUrl,
        send: publicFetch,
        log,
        signal: stopping.signal,
      }),
    async stop() {
      stopping.abort();
    },
  };
}

function deleteExpiredRows(database: Database): Job {
  return {
    name: 'delete expired rows of the services',
    everyMs: hourMs,
    async run() {
      await database.query('select realtime.prune_messages()');
      await database.query('select auth.prune()');
    },
  };
}

/** The log has a maximum size: neither a flood of changes nor a process that has not read them may fill the database. */
function limitChangeLog(database: Database): Job {
  return {
    name: 'limit the log of changes',
    everyMs: 60_000,
    async run() {
      await database.query('select realtime.prune_changes()');
    },
  };
}

/** Registers this server, so that the hosted project accepts its reports of visitors' IP addresses. */
function registerStorefront({ tables }: Store, token: string): Job {
  return {
    name: 'register at the hosted project',
    everyMs: 6 * hourMs,
    firstAfterMs: 0,
    async run() {
      const token_hash = createHash('sha256').update(token).digest('hex');
      const { error } = await tables.rpc('register_storefront', { token_hash });
      if (error) throw new Error(error.message);
    },
  };
}
