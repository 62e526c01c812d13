// The environment of a scenario, deleted afterwards: PostgreSQL, the Daraja simulator, two processes of the built shop, and
// proxies between them that inject faults.
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defaultCredentials, defaultMerchant, startDarajaSimulator } from '@jani-juice/daraja-simulator';
import pg from 'pg';
import { type Cluster, startThrowawayPostgresql } from '../../scripts/databases/throwaway-postgresql.ts';
import type { Shopping } from '../actors/customer.ts';
import { createRiders, type Rider } from '../actors/riders.ts';
import { type StaffActor, startStaffActor } from '../actors/staff-actor.ts';
import { findViolations, type LedgerPage, type Violation } from '../money-invariants.ts';
import { type Callback, type CallbackAction, openCallbackProxy } from '../proxies/callback-proxy.ts';
import { type DarajaAction, type DarajaMessage, openDarajaProxy } from '../proxies/daraja-proxy.ts';
import { type CommitMoment, openPostgresqlProxy } from '../proxies/postgresql-proxy.ts';
import { makeShopProcess, type ShopProcess } from './shop-process.ts';

export interface Faults {
  /** Action for a message between the shop and Daraja; `shop` is null where the message does not identify the process. */
  daraja?(shop: number | null, message: DarajaMessage): DarajaAction;
  /** Action for a callback from Daraja. */
  callback?(callback: Callback): CallbackAction;
  /** Called after a callback was sent to a process. */
  callbackSent?(shop: number): void;
  /** Called at each step of a commit; `true` breaks the connection there. */
  commit?(shop: number, moment: CommitMoment): boolean;
}

export interface SimulationOptions {
  faults?: Faults;
  /** PostgreSQL settings. Default: fsync off, which still survives a killed PostgreSQL. */
  postgresql?: Record<string, string>;
  /** Delay from a prompt to its outcome. */
  decisionDelayMs?: number;
  queriesPerMinute?: number;
  /** Initial stock of each product. */
  units?: number;
  /** Number of additional products with one unit. */
  singleUnits?: number;
  /** Seed of the staff's decisions. */
  seed: number;
}

interface DiscountCode {
  code: string;
  percent?: number;
  amountCents?: number;
}
/** With limits in all and per phone. */
const discountCodes: readonly (DiscountCode & { maxUses?: number; maxUsesPerPhone?: number })[] = [
  { code: 'ONCE-EACH', percent: 15, maxUsesPerPhone: 1 },
  { code: 'FIRST-TEN', amountCents: 20_000, maxUses: 10 },
];

export interface Simulation {
  cluster: Cluster;
  shops: ShopProcess[];
  /** What customers can buy. */
  products: { id: string; price: number }[];
  /** The next product with a single unit; null when there is none left. */
  takeSingleUnit(): { id: string; price: number } | null;
  deliveryFee: number;
  discountCodes: readonly DiscountCode[];
  /** Staff members who refund money. */
  staff: StaffActor;
  riders: readonly Rider[];
  /** Pays from the phone menu, in whole shillings. Returns the receipt, or null when it was refused. */
  payWithoutPrompt(phone: string, amount: number, reference: string): Promise<string | null>;
  /** Ends an order's reservation as if its time had passed. */
  expireReservation(orderId: string): Promise<void>;
  /** Access for customers who prefer the process `prefer`, and use any other that is up. */
  shopping(prefer: () => number, timeoutMs?: number): Shopping;
  /** Queries the database directly. */
  // biome-ignore lint/suspicious/noExplicitAny: rows of many shapes.
  query(sql: string, parameters?: unknown[]): Promise<any[]>;
  ledger(): Promise<LedgerPage>;
  violations(isAtRest: boolean): Promise<Violation[]>;
  /**
   * Waits until no invariant is violated. Returns the duration and remaining violations.
   * @param pullAfterMs when to pull M-PESA's statement, which the shop does every half hour
   */
  waitForRest(withinMs: number, pullAfterMs: number): Promise<{ tookMs: number; violations: Violation[] }>;
  logs: string;
  close(): Promise<void>;
}

const publishableKey = `sb_publishable_${randomBytes(24).toString('base64url')}`;
const secretKey = `sb_secret_${randomBytes(24).toString('base64url')}`;

/** Starts a simulation and waits until its shops are ready. `logs` is the folder for the logs of the processes. */
export async function openSimulation(logs: string, options: SimulationOptions): Promise<Simulation> {
  const { faults = {}, queriesPerMinute = 1200, units = 100_000, singleUnits: howMany = 0, seed } = options;
  const closers: (() => Promise<unknown>)[] = [];
  const close = async () => {
    for (const closer of closers.splice(0).reverse()) await closer();
  };
  try {
    await mkdir(logs, { recursive: true });
    const folder = await mkdtemp(join(tmpdir(), 'jani-simulation-'));
    closers.push(() => rm(folder, { recursive: true, force: true }));
    const cluster = await startThrowawayPostgresql(options.postgresql);
    closers.push(() => cluster.stop());
    const simulator = await startDarajaSimulator({
      decisionDelayMs: options.decisionDelayMs ?? 300,
      lateSuccessDelayMs: 3_000,
      tooEarlyMs: 200,
      resultDelayMs: 300,
      queryLimit: { requests: queriesPerMinute, perMs: 60_000 },
    });
    closers.push(() => simulator.close());

    const shops: ShopProcess[] = [];
    const callbacks = await openCallbackProxy(
      () => portsOf(shops),
      (callback) => faults.callback?.(callback) ?? {},
      (_, port) => faults.callbackSent?.(shops.findIndex((shop) => shop.port === port)),
    );
    closers.push(() => callbacks.close());
    // One for both processes: the URL of M-PESA is part of the account whose token they share.
    const toDaraja = await openDarajaProxy(
      simulator.url,
      () => callbacks.url,
      (message) => {
        const shop = shops.findIndex(({ port }) => port === message.port);
        return faults.daraja?.(shop < 0 ? null : shop, message) ?? 'forward';
      },
    );
    closers.push(toDaraja.close);
    for (const index of [0, 1]) {
      const toDatabase = await openPostgresqlProxy(
        cluster.url,
        (moment) => faults.commit?.(index, moment) ?? false,
      );
      closers.push(toDatabase.close);
      const shop = await makeShopProcess(`shop ${index + 1}`, join(logs, `shop-${index + 1}.log`), {
        DATABASE_URL: toDatabase.url,
        SIMULATOR_PORT: String(toDaraja.port),
        DATA_DIR: folder,
        TRUSTED_PROXIES: '1',
        MPESA_ENV: 'simulator',
        MPESA_QUERIES_PER_MINUTE: String(queriesPerMinute),
        SUPABASE_PUBLISHABLE_KEY: publishableKey,
        SUPABASE_SECRET_KEY: secretKey,
        ADMIN_PASSWORD: 'torture and mercy',
        LOG_LEVEL: 'warn',
      });
      shops.push(shop);
      closers.push(() => shop.stop());
      // The first process migrates and seeds the database.
      await shop.start();
    }

    const pool = new pg.Pool({ connectionString: cluster.url, max: 2 });
    // A stopped PostgreSQL breaks idle connections; the next query opens another.
    pool.on('error', () => {});
    closers.push(() => pool.end());
    const query = async (sql: string, parameters: unknown[] = []) => (await pool.query(sql, parameters)).rows;
    await query('update public.products set stock_quantity = $1', [units]);
    const products = await query('select id, price from public.products where is_active order by id limit 8');
    const [settings] = await query('select delivery_fee from public.store_settings');
    const stock = new Map(
      (await query('select id from public.products')).map(({ id }) => [id as string, units]),
    );
    const singleUnits = await query(
      `insert into public.products (name, slug, price, stock_quantity)
       select 'Last bottle ' || number, 'last-bottle-' || number, 95000, 1 from generate_series(1, $1) as number
       returning id, price`,
      [howMany],
    );
    for (const { id } of singleUnits) stock.set(id, 1);
    for (const { code, percent, amountCents, maxUses, maxUsesPerPhone } of discountCodes) {
      await query(
        `insert into public.discount_codes (code, percent, amount_cents, max_uses, max_uses_per_phone) values ($1, $2, $3, $4, $5)`,
        [code, percent, amountCents, maxUses, maxUsesPerPhone],
      );
    }
    // Some orders are above it.
    await query(
      `update public.store_settings
       set offers_cash = true, refund_approval_above = (select percentile_disc(0.5) within group (order by price) from public.products)`,
    );
    const staff = await startStaffActor({ ports: () => portsOf(shops), publishableKey, secretKey }, seed);
    closers.push(() => staff.close());
    const riders = await createRiders(staff, 3);

    const ledger = async () =>
      (await (await fetch(`${simulator.url}/simulator/ledger`)).json()) as LedgerPage;
    const asOwner = (path: string, body: unknown) =>
      fetch(`http://127.0.0.1:${portsOf(shops)[0]}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', apikey: secretKey },
        body: JSON.stringify(body),
      });
    /** As if half an hour had passed. */
    const pullStatement = async () => {
      await query(
        `update public.statement_pulls
         set outcome = case outcome when 'running' then 'failed' else outcome end,
             finished_at = coalesce(finished_at, now()) - interval '1 hour'`,
      );
      const answer = await asOwner('/functions/v1/mobile-money', { action: 'pull-statement' });
      if (!answer.ok) throw new Error(`the statement was not pulled: ${await answer.text()}`);
    };
    /** As if eleven minutes had passed since refunds were sent to M-PESA. */
    const ageRefunds = () =>
      query(
        `update public.refunds
         set sent_at = sent_at - interval '11 minutes', next_check_at = case when next_check_at is not null then now() end
         where (status = 'sending' and sent_at between now() - interval '2 minutes' and now() - interval '10 seconds')
           or (status in ('sent', 'unknown') and updated_at < now() - interval '4 seconds' and next_check_at > now())`,
      );
    const violations = (isAtRest: boolean) => findViolations(cluster.url, ledger, stock, isAtRest);

    return {
      cluster,
      shops,
      products,
      takeSingleUnit: () => singleUnits.pop() ?? null,
      deliveryFee: settings.delivery_fee,
      discountCodes,
      staff,
      riders,
      async payWithoutPrompt(phone, amount, reference) {
        const number = reference === '' ? defaultMerchant.tillNumber : defaultCredentials.shortcode;
        const answer = await fetch(`${simulator.url}/simulator/payments`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ phone, number, amount, reference }),
        });
        return answer.ok ? ((await answer.json()) as { receipt: string }).receipt : null;
      },
      async expireReservation(orderId) {
        // Ignored while the database or the shop is down.
        await query(
          `update public.orders
           set expires_at = now(), reserved_until = case when reserved_until is not null then now() end
           where id = $1 and payment_status = 'unpaid' and expires_at > now()`,
          [orderId],
        ).catch(() => {});
        await asOwner('/rest/v1/rpc/expire_reservations', {}).catch(() => {});
      },
      shopping: (prefer, timeoutMs = 60_000) => ({
        publishableKey,
        timeoutMs,
        ports() {
          const first = shops[prefer() % shops.length];
          return [...shops]
            .sort((a) => (a === first ? -1 : 1))
            .filter((shop) => shop.isUp())
            .map(({ port }) => port);
        },
      }),
      query,
      ledger,
      violations,
      async waitForRest(withinMs, pullAfterMs) {
        const startedAt = performance.now();
        let hasPulled = false;
        // Started refunds are completed.
        staff.rest();
        while (true) {
          const tookMs = performance.now() - startedAt;
          const found = await violations(true);
          if (found.length === 0 || tookMs > withinMs) {
            staff.work();
            return { tookMs, violations: found };
          }
          if (tookMs > pullAfterMs) await ageRefunds();
          if (!hasPulled && tookMs > pullAfterMs) {
            hasPulled = true;
            // Not awaited: after a failure, violations remain.
            void pullStatement().catch(() => {});
          }
          // The checks are load, too, and must not keep the shop busy.
          const lookMs = performance.now() - startedAt - tookMs;
          await new Promise((done) => setTimeout(done, Math.max(500, lookMs)));
        }
      },
      logs,
      close,
    };
  } catch (problem) {
    await close();
    throw problem;
  }
}

function portsOf(shops: readonly ShopProcess[]): number[] {
  return shops.filter((shop) => shop.isUp()).map(({ port }) => port);
}

/** Counts of refunds by outcome. */
export async function refundFigures(simulation: Simulation): Promise<Record<string, number>> {
  const rows = await simulation.query(
    `select 'refunds ' || r.status as word, count(*)::integer as count from public.refunds as r group by 1
     union all
     select 'refunds that two members agreed on', count(*)::integer from public.refunds as r where r.approved_by is not null
     union all
     select 'refunds of orders whose units were gone', count(*)::integer
     from public.refunds as r join public.payments as p on p.id = r.payment_id
     where r.status = 'completed' and exists (
       select from public.payment_messages as m where m.payment_id = p.id and m.outcome = 'paid_needs_review')
     union all
     select 'refunds learned of by ' || m.source, count(*)::integer
     from public.payment_messages as m where m.refund_id is not null and m.outcome = 'completed' group by 1
     union all
     select 'reversals whose request was interrupted or not answered', count(*)::integer from public.refunds as r
     where r.tries > 0 and r.originator_conversation_id is null
     order by word`,
  );
  const { requests, transactions } = await simulation.ledger();
  return {
    ...simulation.staff.counts(),
    ...Object.fromEntries(rows.map(({ word, count }) => [word, count])),
    'reversals requested from M-PESA': requests.filter(({ api }) => api === 'reversals').length,
    'reversals in the ledger': transactions.filter(({ reversal }) => reversal).length,
  };
}

/** Payments by the message that reported them first. */
export async function countsBySource(simulation: Simulation): Promise<Record<string, number>> {
  const rows = await simulation.query(
    `select m.source, count(*)::integer as payments from public.payment_messages as m
     where m.outcome in ('paid', 'paid_twice', 'paid_needs_review', 'goes_back')
     group by m.source order by m.source`,
  );
  return Object.fromEntries(rows.map(({ source, payments }) => [`recognised by ${source}`, payments]));
}
