// Everything a scenario needs, thrown away afterwards: a PostgreSQL, a pretend Daraja, two processes of the built shop, and
// roads between them on which messages can be lost.
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { type Cluster, startThrowawayPostgresql } from '../scripts/throwaway-postgresql.ts';
import { defaultCredentials, defaultMerchant } from '../simulators/daraja/settings.ts';
import { startDarajaSimulator } from '../simulators/daraja/simulator.ts';
import type { Shopping } from './customer.ts';
import { type DarajaFate, type DarajaMessage, openDarajaRoad } from './daraja-road.ts';
import { type BrokenPromise, findBrokenPromises, type LedgerPage } from './money-invariants.ts';
import { type Notice, type NoticeFate, openNoticeRoad } from './notice-road.ts';
import { type CommitMoment, openPostgresqlRoad } from './postgresql-road.ts';
import { makeShopProcess, type ShopProcess } from './shop-process.ts';
import { type Desk, openDesk } from './staff-desk.ts';

export interface Roads {
  /** What becomes of a message between the shop and Daraja; `shop` is null where nobody can tell which process it was. */
  daraja?(shop: number | null, message: DarajaMessage): DarajaFate;
  /** What becomes of a notice from Daraja. */
  notice?(notice: Notice): NoticeFate;
  /** Told when a notice has left for a process. */
  noticeSent?(shop: number): void;
  /** Told of the moments of each commit; `true` breaks the connection there. */
  commit?(shop: number, moment: CommitMoment): boolean;
}

export interface TownOptions {
  roads?: Roads;
  /** PostgreSQL settings; by default it does not wait for the disk, which outlives a killed PostgreSQL all the same. */
  postgresql?: Record<string, string>;
  /** From a prompt to its decision. */
  decisionDelayMs?: number;
  queriesPerMinute?: number;
  /** Units of each product before anything is sold. */
  units?: number;
  /** How many more products there are, of which there is one unit. */
  singles?: number;
  /** Of the chance by which staff decide. */
  seed: number;
}

export interface Town {
  cluster: Cluster;
  shops: ShopProcess[];
  /** What customers can buy. */
  products: { id: string; price: number }[];
  /** A product of which there is one unit, never the same again; null when there is none left. */
  takeSingle(): { id: string; price: number } | null;
  deliveryFee: number;
  /** Who sends back what came for nothing. */
  desk: Desk;
  /** Somebody pays from the menu of a phone; gives the receipt, or null where nobody could be asked. Whole shillings. */
  payByHand(phone: string, amount: number, reference: string): Promise<string | null>;
  /** As if the time had passed for which units are kept for an order. */
  runOut(orderId: string): Promise<void>;
  /** Customers who prefer the process that `prefer` names, and take any other that is up. */
  shopping(prefer: () => number, patienceMs?: number): Shopping;
  /** Asks the database directly. */
  // biome-ignore lint/suspicious/noExplicitAny: rows of many shapes.
  query(sql: string, parameters?: unknown[]): Promise<any[]>;
  ledger(): Promise<LedgerPage>;
  broken(isAtRest: boolean): Promise<BrokenPromise[]>;
  /**
   * Waits until no promise is broken; gives how long that took, and what is broken still.
   * @param pullAfterMs when M-PESA's statement is pulled, which the shop does every half hour
   */
  comeToRest(withinMs: number, pullAfterMs: number): Promise<{ tookMs: number; broken: BrokenPromise[] }>;
  logs: string;
  close(): Promise<void>;
}

const publishableKey = `sb_publishable_${randomBytes(24).toString('base64url')}`;
const secretKey = `sb_secret_${randomBytes(24).toString('base64url')}`;

/** Opens a town whose shops are ready. `logs` is the folder for what the processes write. */
export async function openTown(logs: string, options: TownOptions): Promise<Town> {
  const { roads = {}, queriesPerMinute = 1200, units = 100_000, singles: howMany = 0, seed } = options;
  const closers: (() => Promise<unknown>)[] = [];
  const close = async () => {
    for (const closer of closers.splice(0).reverse()) await closer();
  };
  try {
    await mkdir(logs, { recursive: true });
    const folder = await mkdtemp(join(tmpdir(), 'jani-town-'));
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
    const notices = await openNoticeRoad(
      () => portsOf(shops),
      (notice) => roads.notice?.(notice) ?? {},
      (_, port) => roads.noticeSent?.(shops.findIndex((shop) => shop.port === port)),
    );
    closers.push(() => notices.close());
    // One for both: the address of M-PESA is part of the account whose token they share.
    const toDaraja = await openDarajaRoad(
      simulator.url,
      () => notices.url,
      (message) => {
        const shop = shops.findIndex(({ port }) => port === message.port);
        return roads.daraja?.(shop < 0 ? null : shop, message) ?? 'on';
      },
    );
    closers.push(toDaraja.close);
    for (const index of [0, 1]) {
      const toDatabase = await openPostgresqlRoad(
        cluster.url,
        (moment) => roads.commit?.(index, moment) ?? false,
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
      // The first migrates and fills the database that the second finds.
      await shop.start();
    }

    const pool = new pg.Pool({ connectionString: cluster.url, max: 2 });
    // A PostgreSQL that stops breaks idle connections; the next question opens another.
    pool.on('error', () => {});
    closers.push(() => pool.end());
    const query = async (sql: string, parameters: unknown[] = []) => (await pool.query(sql, parameters)).rows;
    await query('update public.products set stock_quantity = $1', [units]);
    const products = await query('select id, price from public.products where is_active order by id limit 8');
    const [settings] = await query('select delivery_fee from public.store_settings');
    const stock = new Map(
      (await query('select id from public.products')).map(({ id }) => [id as string, units]),
    );
    const singles = await query(
      `insert into public.products (name, slug, price, stock_quantity)
       select 'Last bottle ' || number, 'last-bottle-' || number, 95000, 1 from generate_series(1, $1) as number
       returning id, price`,
      [howMany],
    );
    for (const { id } of singles) stock.set(id, 1);
    // A part of the orders is above it.
    await query(
      `update public.store_settings
       set refund_approval_above = (select percentile_disc(0.5) within group (order by price) from public.products)`,
    );
    const desk = await openDesk({ ports: () => portsOf(shops), publishableKey, secretKey }, seed);
    closers.push(() => desk.close());

    const ledger = async () =>
      (await (await fetch(`${simulator.url}/simulator/ledger`)).json()) as LedgerPage;
    const asOwner = (path: string, body: unknown) =>
      fetch(`http://127.0.0.1:${portsOf(shops)[0]}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', apikey: secretKey },
        body: JSON.stringify(body),
      });
    /** As if half an hour had gone by. */
    const pullStatement = async () => {
      await query(
        `update public.statement_pulls
         set outcome = case outcome when 'running' then 'failed' else outcome end,
             finished_at = coalesce(finished_at, now()) - interval '1 hour'`,
      );
      const answer = await asOwner('/functions/v1/mobile-money', { action: 'pull-statement' });
      if (!answer.ok) throw new Error(`the statement was not pulled: ${await answer.text()}`);
    };
    /** As if eleven minutes had gone by for the refunds that M-PESA has been asked for. */
    const ageRefunds = () =>
      query(
        `update public.refunds
         set sent_at = sent_at - interval '11 minutes', next_check_at = case when next_check_at is not null then now() end
         where (status = 'sending' and sent_at between now() - interval '2 minutes' and now() - interval '10 seconds')
           or (status in ('sent', 'unknown') and updated_at < now() - interval '4 seconds' and next_check_at > now())`,
      );
    const broken = (isAtRest: boolean) => findBrokenPromises(cluster.url, ledger, stock, isAtRest);

    return {
      cluster,
      shops,
      products,
      takeSingle: () => singles.pop() ?? null,
      deliveryFee: settings.delivery_fee,
      desk,
      async payByHand(phone, amount, reference) {
        const number = reference === '' ? defaultMerchant.tillNumber : defaultCredentials.shortcode;
        const answer = await fetch(`${simulator.url}/simulator/payments`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ phone, number, amount, reference }),
        });
        return answer.ok ? ((await answer.json()) as { receipt: string }).receipt : null;
      },
      async runOut(orderId) {
        // Where the database or the shop is away at the moment, the time has not passed.
        await query(
          `update public.orders
           set expires_at = now(), reserved_until = case when reserved_until is not null then now() end
           where id = $1 and payment_status = 'unpaid' and expires_at > now()`,
          [orderId],
        ).catch(() => {});
        await asOwner('/rest/v1/rpc/expire_reservations', {}).catch(() => {});
      },
      shopping: (prefer, patienceMs = 60_000) => ({
        publishableKey,
        patienceMs,
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
      broken,
      async comeToRest(withinMs, pullAfterMs) {
        const startedAt = performance.now();
        let hasPulled = false;
        // What is begun comes to its end.
        desk.rest();
        while (true) {
          const tookMs = performance.now() - startedAt;
          const found = await broken(true);
          if (found.length === 0 || tookMs > withinMs) {
            desk.work();
            return { tookMs, broken: found };
          }
          if (tookMs > pullAfterMs) await ageRefunds();
          if (!hasPulled && tookMs > pullAfterMs) {
            hasPulled = true;
            // Not waited for: where it fails, promises stay broken.
            void pullStatement().catch(() => {});
          }
          // Looking is work too: it must not keep the shop from coming to rest.
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

/** What became of the money that went back. */
export async function refundFigures(town: Town): Promise<Record<string, number>> {
  const rows = await town.query(
    `select 'refunds ' || r.status as word, count(*)::integer as count from public.refunds as r group by 1
     union all
     select 'refunds that two members agreed on', count(*)::integer from public.refunds as r where r.approved_by is not null
     union all
     select 'refunds of orders whose units were gone', count(*)::integer
     from public.refunds as r join public.payments as p on p.id = r.payment_id
     where r.status = 'completed' and exists (
       select from public.payment_messages as m where m.payment_id = p.id and m.outcome = 'paid_needs_decision')
     union all
     select 'refunds learned of by ' || m.source, count(*)::integer
     from public.payment_messages as m where m.refund_id is not null and m.outcome = 'completed' group by 1
     union all
     select 'reversals whose request was interrupted or not answered', count(*)::integer from public.refunds as r
     where r.tries > 0 and r.originator_conversation_id is null
     order by word`,
  );
  const { requests, transactions } = await town.ledger();
  return {
    ...town.desk.counts(),
    ...Object.fromEntries(rows.map(({ word, count }) => [word, count])),
    'reversals M-PESA was asked for': requests.filter(({ api }) => api === 'reversals').length,
    'reversals in the ledger': transactions.filter(({ reversal }) => reversal).length,
  };
}

/** By what the shop first heard of the money in its books. */
export async function recognisedBy(town: Town): Promise<Record<string, number>> {
  const rows = await town.query(
    `select m.source, count(*)::integer as payments from public.payment_messages as m
     where m.outcome in ('paid', 'paid_twice', 'paid_needs_decision', 'goes_back')
     group by m.source order by m.source`,
  );
  return Object.fromEntries(rows.map(({ source, payments }) => [`recognised by ${source}`, payments]));
}
