// Several processes of the built shop behind PgBouncer in transaction mode, and the M-PESA simulator as a separate process.
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startDarajaSimulator } from '@jani-juice/daraja-simulator';
import pg from 'pg';
import { startThrowawayPgbouncer } from '../../scripts/databases/throwaway-pgbouncer.ts';
import { startThrowawayPostgresql } from '../../scripts/databases/throwaway-postgresql.ts';
import { findViolations, type LedgerPage, type Violation } from '../money-invariants.ts';
import { openCallbackProxy } from '../proxies/callback-proxy.ts';
import { type DarajaAction, type DarajaMessage, openDarajaProxy } from '../proxies/daraja-proxy.ts';
import { makeShopProcess, type ShopProcess } from './shop-process.ts';

export interface PooledShops {
  shops: ShopProcess[];
  publishableKey: string;
  /** Connections that the pooler may open to PostgreSQL. */
  serverConnections: number;
  /** Products that customers can buy. */
  products: { id: string; slug: string; price: number }[];
  deliveryFee: number;
  /** Ports of all processes, rotated by one each time; a killed process refuses connections. */
  nextPorts(): number[];
  /** Queries the database directly. */
  // biome-ignore lint/suspicious/noExplicitAny: rows of many shapes.
  query(sql: string, parameters?: unknown[]): Promise<any[]>;
  /** Waits until all is paid and no invariant is violated, both at one time. Returns what is still violated at the end. */
  waitForRest(isPaid: () => Promise<boolean>, withinMs: number): Promise<Violation[]>;
  close(): Promise<void>;
}

const units = 100_000;

/**
 * Starts the processes and waits until they are ready.
 * @param logs folder for their logs
 * @param isListening whether they have a direct connection for notifications. Default: true
 * @param decide returns the action for each message to and from M-PESA. Default: all are forwarded
 */
export async function openPooledShops(
  logs: string,
  {
    processes,
    isListening = true,
    decide,
  }: { processes: number; isListening?: boolean; decide?: (message: DarajaMessage) => DarajaAction },
): Promise<PooledShops> {
  const serverConnections = 8;
  const publishableKey = `sb_publishable_${randomBytes(24).toString('base64url')}`;
  const closers: (() => Promise<unknown>)[] = [];
  const close = async () => {
    for (const closer of closers.splice(0).reverse()) await closer();
  };
  try {
    await mkdir(logs, { recursive: true });
    const folder = await mkdtemp(join(tmpdir(), 'jani-pooled-'));
    closers.push(() => rm(folder, { recursive: true, force: true }));
    const cluster = await startThrowawayPostgresql();
    closers.push(() => cluster.stop());
    const pooler = await startThrowawayPgbouncer(cluster.url, serverConnections);
    closers.push(() => pooler.stop());
    const simulator = await startDarajaSimulator({
      decisionDelayMs: 300,
      tooEarlyMs: 200,
      queryLimit: { requests: 1200, perMs: 60_000 },
    });
    closers.push(() => simulator.close());
    const shops: ShopProcess[] = [];
    // As behind a load balancer: callbacks reach a running process, whichever sent the prompt.
    const callbacks = await openCallbackProxy(() =>
      shops.filter((one) => one.isUp()).map(({ port }) => port),
    );
    closers.push(() => callbacks.close());
    const toDaraja = await openDarajaProxy(simulator.url, () => callbacks.url, decide);
    closers.push(() => toDaraja.close());
    for (let number = 1; number <= processes; number += 1) {
      const shop = await makeShopProcess(`shop ${number}`, join(logs, `shop-${number}.log`), {
        DATABASE_URL: pooler.url,
        ...(isListening ? { DATABASE_LISTEN_URL: cluster.url } : {}),
        DATA_DIR: folder,
        BACKUPS: 'off',
        TRUSTED_PROXIES: '1',
        MPESA_ENV: 'simulator',
        SIMULATOR_PORT: String(toDaraja.port),
        MPESA_QUERIES_PER_MINUTE: '1200',
        SUPABASE_PUBLISHABLE_KEY: publishableKey,
        SUPABASE_SECRET_KEY: `sb_secret_${publishableKey.slice('sb_publishable_'.length)}`,
        ADMIN_PASSWORD: 'torture and mercy',
        LOG_LEVEL: 'warn',
      });
      shops.push(shop);
      closers.push(() => shop.stop());
      await shop.start();
    }
    const pool = new pg.Pool({ connectionString: cluster.url, max: 4 });
    closers.push(() => pool.end());
    const query = async (sql: string, parameters: unknown[] = []) => (await pool.query(sql, parameters)).rows;
    await query('update public.products set stock_quantity = $1', [units]);
    await query('update private.limits set allowed = 1000000');
    const products = await query(
      'select id, slug, price from public.products where is_active order by id limit 8',
    );
    const [settings] = await query('select delivery_fee from public.store_settings');
    const stock = new Map(
      (await query('select id from public.products')).map(({ id }) => [id as string, units]),
    );
    const ledger = async () =>
      (await (await fetch(`${simulator.url}/simulator/ledger`)).json()) as LedgerPage;
    let turn = 0;
    return {
      shops,
      publishableKey,
      serverConnections,
      products,
      deliveryFee: settings.delivery_fee,
      nextPorts() {
        turn += 1;
        return shops.map((_, index) => (shops[(turn + index) % shops.length] as ShopProcess).port);
      },
      query,
      async waitForRest(isPaid, withinMs) {
        const deadline = performance.now() + withinMs;
        for (;;) {
          // In this order: a prompt that is decided in between is no violation before, and one after.
          const isDone = await isPaid();
          const violations = await findViolations(cluster.url, ledger, stock, true);
          if ((isDone && violations.length === 0) || performance.now() > deadline) return violations;
          await new Promise((done) => setTimeout(done, 500));
        }
      },
      close,
    };
  } catch (problem) {
    await close();
    throw problem;
  }
}
