// Point-in-time recovery with PostgreSQL's own tools, with the commands of docs/operating.md.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { appendFile, chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Database, migrate } from '@jani-juice/backend/database';
import { openPostgresql } from '@jani-juice/backend/postgresql';
import { afterEach, expect, test } from 'vitest';
import { shopMigrations } from '../../scripts/databases/shop-migrations.ts';
import { startThrowawayPostgresql } from '../../scripts/databases/throwaway-postgresql.ts';
import { findPostgresqlPrograms } from '../../scripts/tests/ensure-programs.mjs';
import { call, makeProduct, orderForm } from '../../supabase/tests/shop-database.ts';

const run = promisify(execFile);
const programs = findPostgresqlPrograms('pg_basebackup', 'pg_receivewal', 'pg_verifybackup');

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

const figures = async (database: Database) =>
  (await database.query('select count(*) as orders, sum(total_amount) as total from public.orders')).rows[0];

const exited = (child: ChildProcess) => new Promise<void>((done) => child.once('exit', () => done()));

test.runIf(programs)(
  'the archive restores the state of any moment, also after the server was lost',
  async () => {
    const program = (name: string) => join(programs ?? '', name);
    const folder = await mkdtemp(join(tmpdir(), 'jani-archive-'));
    ends.push(() => rm(folder, { recursive: true, force: true }));
    await chmod(folder, 0o777);
    const [base, wal] = [join(folder, 'base'), join(folder, 'wal')];
    await mkdir(wal);
    const primary = await startThrowawayPostgresql({});
    ends.push(() => primary.stop());
    const url = `--dbname=${primary.url}`;

    await run(program('pg_receivewal'), [url, '--slot=jani', '--create-slot', '--if-not-exists']);
    const receiver = spawn(
      program('pg_receivewal'),
      [url, '--slot=jani', '--synchronous', `--directory=${wal}`],
      { stdio: 'ignore' },
    );
    ends.push(async () => receiver.kill());

    const shop = openPostgresql(primary.url, { onError: () => {} });
    await migrate(shop, shopMigrations);
    await shop.execute(await readFile(new URL('../../supabase/seed.sql', import.meta.url), 'utf8'));
    const product = await makeProduct(shop, 1000);
    const placeOrder = () => call(shop, 'visitor', 'place_order', orderForm(product));
    await placeOrder();
    await run(program('pg_basebackup'), [url, `--pgdata=${base}`, '--wal-method=none', '--checkpoint=fast']);
    await run(program('pg_verifybackup'), ['--no-parse-wal', base]);
    await placeOrder();
    await placeOrder();
    const before = await figures(shop);
    const { rows } = await shop.query<{ moment: string }>('select clock_timestamp()::text as moment');
    await shop.execute('update public.orders set total_amount = 0 where true');
    await placeOrder();
    await expect
      .poll(
        async () =>
          (await shop.query(`select from pg_stat_replication where flush_lsn >= pg_current_wal_lsn()`))
            .rowCount,
      )
      .toBe(1);
    const last = await figures(shop);
    await shop.close();
    await primary.kill();
    // It would wait for the server to come back.
    receiver.kill();
    await exited(receiver);
    // As root, the restored server is another user.
    await run('chmod', ['-R', 'a+rX', wal]);

    const restoreTo = async (settings: string) => {
      const restored = await startThrowawayPostgresql({}, 'postgres', async (data) => {
        await rm(data, { recursive: true });
        await run('cp', ['-r', base, data]);
        await writeFile(join(data, 'recovery.signal'), '');
        await appendFile(
          join(data, 'postgresql.conf'),
          `restore_command = 'cp ${wal}/%f "%p" || cp ${wal}/%f.partial "%p"'\nrecovery_target_action = 'promote'\n${settings}\n`,
        );
      });
      ends.push(() => restored.stop());
      const database = openPostgresql(restored.url, { onError: () => {} });
      ends.push(() => database.close());
      await expect
        .poll(async () => (await database.query('select pg_is_in_recovery() as is_recovering')).rows[0])
        .toEqual({ is_recovering: false });
      return figures(database);
    };
    expect(await restoreTo(`recovery_target_time = '${rows[0]?.moment}'`)).toEqual(before);
    expect(await restoreTo('')).toEqual(last);
    expect(before).toMatchObject({ orders: 3 });
    expect(last).toMatchObject({ orders: 4 });
  },
);
