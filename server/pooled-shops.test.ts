// Three processes behind PgBouncer in transaction mode, round robin, one of them killed: every order is paid once.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openPostgresql } from '../backend/database/postgresql.ts';
import { freePort } from '../scripts/free-port.ts';
import { type OpenShop, openShop, until } from '../scripts/open-shop.ts';
import { pgbouncer, startThrowawayPgbouncer } from '../scripts/throwaway-pgbouncer.ts';
import { type Cluster, findPostgresql, startThrowawayPostgresql } from '../scripts/throwaway-postgresql.ts';
import { createStore } from '../web/lib/store.ts';

const isPossible = pgbouncer !== undefined && (await findPostgresql()) !== null;
if (!isPossible)
  console.warn('PgBouncer or PostgreSQL is not installed: the test behind a pooler is skipped.');

const serverConnections = 8;
const orders = 30;

describe.runIf(isPossible)('three processes behind a pooler', () => {
  let cluster: Cluster;
  let pooler: Awaited<ReturnType<typeof startThrowawayPgbouncer>>;
  let folder: string;
  let simulatorPort: string;
  let simulator: ChildProcess | undefined;
  const shops: OpenShop[] = [];
  const settings = () => ({
    DATABASE_URL: pooler.url,
    DATABASE_LISTEN_URL: cluster.url,
    DATA_DIR: folder,
    SUPABASE_PUBLISHABLE_KEY: 'sb_publishable_of_all_processes',
    SUPABASE_SECRET_KEY: 'sb_secret_of_all_processes_together',
    BACKUPS: 'off',
    SIMULATOR_PORT: simulatorPort,
    MPESA_QUERIES_PER_MINUTE: '600',
  });

  beforeAll(async () => {
    cluster = await startThrowawayPostgresql();
    pooler = await startThrowawayPgbouncer(cluster.url, serverConnections);
    simulatorPort = String(await freePort());
    folder = await mkdtemp(join(tmpdir(), 'jani-pooled-'));
    const started = spawn(process.execPath, ['scripts/simulator.mjs'], {
      env: { ...process.env, DATA_DIR: folder, SIMULATOR_PORT: simulatorPort },
      stdio: 'ignore',
    });
    simulator = started;
    const answers = async () => (await fetch(`http://127.0.0.1:${simulatorPort}/simulator/ledger`)).ok;
    await until(answers, 'the simulator answers', 120_000);
    for (let count = 0; count < 3; count += 1) shops.push(await openShop(settings()));
  });
  afterAll(async () => {
    for (const shop of shops) await shop.close();
    simulator?.kill();
    await pooler?.stop();
    await cluster?.stop();
    if (folder) await rm(folder, { recursive: true, force: true });
  });

  test('does not start where no notification arrives', async () => {
    const { DATABASE_LISTEN_URL: _direct, ...others } = settings();
    await expect(openShop(others)).rejects.toThrow(/Set DATABASE_LISTEN_URL to the address of the database/);
  });

  test('pays every order once, through a kill, with few connections', async () => {
    const direct = openPostgresql(cluster.url, { poolSize: 1 });
    await direct.query('update public.products set stock_quantity = 100000 where true');
    await direct.query(`update private.limits set allowed = 1000000 where true`);
    const { rows } = await direct.query<{ id: string; total: number }>(
      `select p.id, p.price + s.delivery_fee as total from public.products as p, public.store_settings as s
       where p.is_active order by p.name limit 1`,
    );
    const key = settings().SUPABASE_PUBLISHABLE_KEY;
    let running = [...shops];
    const ids: string[] = [];
    for (let index = 0; index < orders; index += 1) {
      if (index === orders / 2) {
        // The first one: the simulator must not depend on any of them.
        await shops[0]?.kill();
        running = shops.slice(1);
      }
      const shop = running[index % running.length];
      const store = createStore({ url: shop?.url ?? '', key });
      const phone = `07${String(10_000_000 + index * 7).padStart(8, '0')}`;
      const placed = await store.tables.rpc('place_order', {
        idempotency_key: crypto.randomUUID(),
        product_id: rows[0]?.id ?? '',
        quantity: 1,
        customer_name: 'Wanjiru Kamau',
        customer_email: 'wanjiru@example.com',
        customer_phone: phone,
        delivery_location: 'Kilimani',
        expected_total: rows[0]?.total ?? 0,
      });
      expect(placed.error).toBeNull();
      const order = placed.data as unknown as { id: string; tracking_number: string; total_amount: number };
      ids.push(order.id);
      const begun = await store.functions.invoke('mobile-money', {
        body: {
          action: 'initiate',
          phoneNumber: phone,
          amount: order.total_amount,
          trackingNumber: order.tracking_number,
          orderId: order.id,
        },
      });
      expect(begun.error).toBeNull();
    }
    const countPaid = async () =>
      (await direct.query(`select from public.orders where payment_status = 'paid'`)).rowCount;
    await until(async () => (await countPaid()) === orders, 'all orders are paid', 60_000);
    const paidTwice = await direct.query(
      `select order_id from public.payments where status = 'completed' group by order_id having count(*) > 1`,
    );
    expect(paidTwice.rowCount).toBe(0);
    const { rows: connections } = await direct.query<{ pooled: number }>(
      `select count(*) as pooled from pg_stat_activity where application_name = 'backend' and pid <> pg_backend_pid()`,
    );
    expect(connections[0]?.pooled).toBeLessThanOrEqual(serverConnections);
    expect(running.flatMap((shop) => shop.problems())).toEqual([]);
    expect(new Set(ids).size).toBe(orders);
    await direct.close();
  }, 300_000);
});
