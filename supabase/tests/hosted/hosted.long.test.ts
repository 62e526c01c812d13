// The shop on a database like that of a hosted project: migrations and seed applied by its owner, calls by its API's role.
import { randomUUID } from 'node:crypto';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createAdaptorServer } from '@hono/node-server';
import { createDataService } from '@jani-juice/backend/data';
import type { Database } from '@jani-juice/backend/database';
import { asRole, type Claims, testDatabases, throwawayDatabase } from '@jani-juice/backend/testing';
import {
  certificate,
  defaultCredentials,
  defaultMerchant,
  startDarajaSimulator,
} from '@jani-juice/daraja-simulator';
import { PostgrestClient } from '@supabase/postgrest-js';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { shopMigrations } from '../../../scripts/databases/shop-migrations.ts';
import { findPostgresql } from '../../../scripts/databases/throwaway-postgresql.ts';
import { createMobileMoney, type MobileMoneyEvent } from '../../functions/mobile-money/handler.ts';
import { readHostedSettings } from '../../functions/mobile-money/hosted-settings.ts';
import type { DeliveryStatus, Database as Types } from '../../types.ts';
import { createHostedProject, type HostedProject } from './project.ts';

const isPossible = testDatabases().includes('postgresql') && (await findPostgresql()) !== null;
if (!isPossible) console.warn('There is no PostgreSQL: the tests of a hosted project are skipped.');

// A busy machine may be slow.
const waitMs = 100_000;
vi.setConfig({ testTimeout: 2 * waitMs, hookTimeout: 2 * waitMs });

const secret = 'sb_secret_default';
const publishable = 'sb_publishable_1';
const address = '203.0.113.7';
const staff = { id: randomUUID(), session: randomUUID() };
const secondStaff = { id: randomUUID(), session: randomUUID() };
const claimsOf = ({ id, session }: typeof staff): Claims => ({
  role: 'authenticated',
  sub: id,
  session_id: session,
  aal: 'aal1',
});
const claims = new Map<string, Claims>([
  [publishable, { role: 'anon' }],
  [secret, { role: 'service_role' }],
  ['staff', claimsOf(staff)],
  ['second staff', claimsOf(secondStaff)],
  ['customer', { role: 'authenticated', sub: randomUUID() }],
]);

describe.runIf(isPossible)('a hosted project', () => {
  let project: HostedProject;
  let data: Awaited<ReturnType<typeof createDataService>>;
  let simulator: Awaited<ReturnType<typeof startDarajaSimulator>>;
  let gateway: Server;
  let url = '';
  let mobileMoney: (request: Request) => Promise<Response>;
  const logged: MobileMoneyEvent[] = [];

  beforeAll(async () => {
    project = await createHostedProject();
    data = await createDataService({ database: project.authenticator, schemas: ['public'] });
    simulator = await startDarajaSimulator({
      decisionDelayMs: 20,
      resultDelayMs: 20,
      confirmationDelayMs: 0,
      tooEarlyMs: 0,
    });
    // Like the platform's network: it sets the caller's IP address, and the role comes from the bearer token.
    gateway = createAdaptorServer({
      overrideGlobalObjects: false,
      fetch: async (request: Request) => {
        const headers = new Headers(request.headers);
        headers.set('cf-connecting-ip', address);
        const body = ['GET', 'HEAD'].includes(request.method) ? null : await request.text();
        const passedOn = new Request(request.url, { method: request.method, headers, body });
        if (new URL(request.url).pathname.startsWith('/functions/v1/')) return mobileMoney(passedOn);
        const caller = claims.get(headers.get('authorization')?.slice('Bearer '.length) ?? '');
        if (!caller) return Response.json({ message: 'Invalid token' }, { status: 401 });
        return data.fetch(passedOn, { claims: caller, address: null });
      },
    }) as Server;
    await new Promise<void>((done) => gateway.listen(0, '127.0.0.1', done));
    url = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}`;
    const secrets: Record<string, string> = {
      SUPABASE_URL: url,
      SUPABASE_SECRET_KEYS: JSON.stringify({ default: secret }),
      PUBLIC_URL: 'https://shop.example',
      MPESA_ENV: 'sandbox',
      MPESA_URL: simulator.url,
      MPESA_CONSUMER_KEY: defaultCredentials.consumerKey,
      MPESA_CONSUMER_SECRET: defaultCredentials.consumerSecret,
      MPESA_SHORTCODE: defaultCredentials.shortcode,
      MPESA_PASSKEY: defaultCredentials.passkey,
      MPESA_TRANSACTION_TYPE: 'CustomerPayBillOnline',
      MPESA_INITIATOR_NAME: defaultMerchant.initiatorName,
      MPESA_INITIATOR_PASSWORD: defaultMerchant.initiatorPassword,
      MPESA_CERTIFICATE: certificate,
      MPESA_QUERIES_PER_MINUTE: '600',
    };
    const { settings } = readHostedSettings((name) => secrets[name]);
    mobileMoney = createMobileMoney({ ...settings, log: (event) => logged.push(event) });
    // Accounts and sessions as the auth service writes them.
    for (const member of [staff, secondStaff]) {
      await project.auth.query(
        'insert into auth.users (id, email, created_at, updated_at) values ($1, $2, now(), now())',
        [member.id, `${member.id}@jani.example`],
      );
      await project.auth.query(
        `insert into auth.sessions (id, user_id, created_at, updated_at, aal) values ($1, $2, now(), now(), 'aal1')`,
        [member.session, member.id],
      );
      const { error } = await as(secret).from('admin_profiles').insert({ user_id: member.id });
      expect(error).toBeNull();
    }
  });
  afterAll(async () => {
    await simulator?.close();
    gateway?.closeAllConnections();
    gateway?.close();
    await data?.close();
    await project?.close();
  });

  const as = (key: string) =>
    new PostgrestClient<Types>(`${url}/rest/v1`, {
      headers: { apikey: key.startsWith('sb_') ? key : publishable, authorization: `Bearer ${key}` },
    });
  const callFunction = async (body: Record<string, unknown>, key = publishable) => {
    const response = await fetch(`${url}/functions/v1/mobile-money`, {
      method: 'POST',
      headers: { apikey: key, authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return { status: response.status, body: await response.json() };
  };
  /** The result of a call that must not fail. */
  const answer = async <Data>(
    call: PromiseLike<{ data: Data; error: unknown }>,
  ): Promise<NonNullable<Data>> => {
    const { data, error } = await call;
    expect(error).toBeNull();
    return data as NonNullable<Data>;
  };
  const row = async <Name extends 'orders' | 'payments' | 'refunds' | 'deliveries'>(
    table: Name,
    column: string,
    value: string,
  ) =>
    (await answer(
      as('staff')
        .from(table as 'orders')
        .select()
        .eq(column as 'id', value)
        .single(),
    )) as unknown as Types['public']['Tables'][Name]['Row'];

  async function placeOrder(phone: string) {
    const [product] = await answer(
      as(publishable).from('products').select('id, price').order('name').limit(1),
    );
    const { delivery_fee } = await answer(
      as(publishable).from('store_settings').select('delivery_fee').single(),
    );
    return answer(
      as(publishable).rpc('place_order', {
        idempotency_key: randomUUID(),
        product_id: product?.id ?? '',
        quantity: 1,
        customer_name: 'Wanjiru Kamau',
        customer_email: `${phone}@example.com`,
        customer_phone: phone,
        delivery_location: 'Kilimani',
        expected_total: (product?.price ?? 0) + delivery_fee,
      }),
    ) as Promise<unknown> as Promise<{ id: string; tracking_number: string; total_amount: number }>;
  }

  async function placePaidOrder(phone: string) {
    const order = await placeOrder(phone);
    const begun = await callFunction({
      action: 'initiate',
      phoneNumber: phone,
      amount: order.total_amount,
      trackingNumber: order.tracking_number,
      orderId: order.id,
    });
    expect(begun, JSON.stringify(logged)).toMatchObject({ status: 200 });
    await vi.waitFor(
      async () => expect(await row('orders', 'id', order.id)).toMatchObject({ payment_status: 'paid' }),
      { timeout: waitMs },
    );
    return order;
  }

  test('belongs to an owner without superuser rights, who may not change the platform', async () => {
    const { rows } = await project.owner.query(
      'select rolname as name, rolsuper as is_superuser from pg_roles where rolname = session_user',
    );
    expect(rows).toEqual([{ name: 'postgres', is_superuser: false }]);
    for (const refused of [
      'alter table storage.objects add column note text',
      'alter table realtime.messages disable row level security',
      'alter table auth.users add column note text',
      'create table auth.notes ()',
    ])
      await expect(project.owner.query(refused), refused).rejects.toMatchObject({ code: '42501' });
  });

  test('has the same rights as the shop on its own services', async () => {
    const own = await throwawayDatabase('postgresql', shopMigrations);
    const [hosted, embedded] = [await rightsOf(project.owner), await rightsOf(own)];
    await own.close();
    expect(embedded.length).toBeGreaterThan(300);
    expect(hosted).toEqual(embedded);
  });

  test('publishes the tables that pages and staff screens follow', async () => {
    const own = await throwawayDatabase('postgresql', shopMigrations);
    const published = `select tablename from pg_publication_tables where pubname = 'supabase_realtime' order by 1`;
    const [hosted, embedded] = [await project.owner.query(published), await own.query(published)];
    await own.close();
    expect(hosted.rowCount).toBeGreaterThan(10);
    expect(hosted.rows).toEqual(embedded.rows);
  });

  test('settles an order, which staff deliver, undo and anonymise', async () => {
    const order = await placePaidOrder('0712345678');
    const assigned = await answer(
      as('staff').rpc('assign_delivery', {
        order_id: order.id,
        delivery_person: 'Otieno',
        delivery_phone: '0722000000',
        delivery_vehicle: 'Motorbike',
      }),
    );
    expect(assigned).toMatchObject({ order_id: order.id });
    const changeDelivery = async (status: DeliveryStatus) => {
      const delivery = await row('deliveries', 'order_id', order.id);
      return (await answer(
        as('staff').rpc('set_delivery_status', {
          delivery_id: delivery.id,
          status,
          expected_status: delivery.delivery_status,
        }),
      )) as { change_id: string };
    };
    const { change_id } = await changeDelivery('in_transit');
    expect((await as('staff').rpc('undo_status_change', { change_id })).error).toBeNull();
    await changeDelivery('in_transit');
    await changeDelivery('delivered');
    expect(await row('orders', 'id', order.id)).toMatchObject({ status: 'delivered' });
    const tracked = await answer(
      as(publishable).rpc('track_order', { tracking_number: order.tracking_number }),
    );
    expect(tracked).toMatchObject({ status: 'delivered' });
    const sent = await project.platform.query(
      `select distinct payload ->> 'payment_status' as payment from realtime.messages where topic = $1 order by 1`,
      [`order-${order.id}`],
    );
    expect(sent.rows).toEqual(expect.arrayContaining([{ payment: 'paid' }]));
    await answer(as('staff').rpc('export_person', { identifier: '0712345678' }));
    expect(await answer(as('staff').rpc('erase_person', { identifier: '0712345678' }))).toMatchObject({
      erased: { orders: 1 },
    });
    expect((await row('orders', 'id', order.id)).customer_phone).not.toContain('712345678');
  });

  test('refunds a cancelled order by M-PESA', async () => {
    const order = await placePaidOrder('0712345679');
    await answer(
      as('staff').rpc('set_order_status', {
        order_id: order.id,
        status: 'cancelled',
        expected_status: (await row('orders', 'id', order.id)).status,
        expected_payment_status: 'paid',
      }),
    );
    const payment = await row('payments', 'order_id', order.id);
    const refund = await answer(
      as('staff').rpc('request_refund', { payment_id: payment.id, reason: 'Customer cancelled' }),
    );
    if (refund.needs_approval)
      await answer(as('second staff').rpc('approve_refund', { refund_id: refund.id }));
    expect((await callFunction({ action: 'send-refunds' }, secret)).body).toMatchObject({ sent: 1 });
    await vi.waitFor(
      async () => expect(await row('refunds', 'id', refund.id)).toMatchObject({ status: 'completed' }),
      { timeout: waitMs },
    );
    expect(await row('orders', 'id', order.id)).toMatchObject({ payment_status: 'refunded' });
  });

  test('ends a pause of prompts by a probe, and by staff', async () => {
    const pause = () =>
      project.owner.query(
        `insert into private.prompt_pause (code, description, until, caused_by)
         values ('2006', 'Account inactive', now() - interval '1 second', '+254700000009')`,
      );
    const isPaused = async () =>
      (await project.owner.query('select from private.prompt_pause')).rowCount === 1;
    await pause();
    await placePaidOrder('0712345680');
    expect(await isPaused()).toBe(false);
    await pause();
    expect((await as('staff').rpc('resume_prompts')).error).toBeNull();
    expect(await isPaused()).toBe(false);
  });

  test('runs the jobs of the shop’s own processes', async () => {
    await answer(as(secret).rpc('claim_due_jobs'));
    for (const action of ['query-open', 'take-up-till', 'pull-statement', 'send-refunds']) {
      expect((await callFunction({ action }, secret)).status, action).toBe(200);
    }
    await answer(as(secret).rpc('expire_reservations'));
    await answer(as(secret).rpc('forget_old_rows'));
    await answer(as(secret).rpc('shop_metrics'));
    expect((await answer(as(secret).rpc('lease_messages'))).length).toBeGreaterThan(0);
    expect((await as(secret).rpc('register_storefront', { token_hash: 'ab'.repeat(32) })).error).toBeNull();
    const figures = await answer(as('staff').rpc('dashboard_figures'));
    expect(figures).toHaveLength(1);
    await answer(as('staff').rpc('count_work'));
    await answer(as('staff').rpc('search_orders', {}));
  });

  test('lets staff and no one else upload product images and send broadcasts', async () => {
    const upload = (key: string) =>
      asRole(project.authenticator, claims.get(key) as Claims, (session) =>
        session.query(
          `insert into storage.objects (bucket_id, name) values ('product-images', 'products/' || $1)`,
          [`${randomUUID()}.webp`],
        ),
      );
    const send = (key: string) =>
      asRole(project.authenticator, claims.get(key) as Claims, (session) =>
        session.query(
          `insert into realtime.messages (topic, extension, event) values ('hall', 'broadcast', 'hello')`,
        ),
      );
    for (const attempt of [upload, send]) {
      await expect(attempt('staff')).resolves.toMatchObject({ rowCount: 1 });
      for (const other of ['customer', publishable])
        await expect(attempt(other)).rejects.toMatchObject({ code: '42501' });
    }
  });

  test('ends staff rights with the session that the auth service deletes', async () => {
    expect(await answer(as('second staff').rpc('is_admin'))).toBe(true);
    await project.auth.query('delete from auth.sessions where id = $1', [secondStaff.session]);
    expect((await as('second staff').rpc('is_admin')).data).toBe(false);
    const sent = await project.platform.query('select from realtime.messages where topic = $1', [
      `staff-${secondStaff.id}`,
    ]);
    expect(sent.rowCount).toBe(1);
  });

  test('counts calls by the IP address that the platform sets', async () => {
    const counted = await project.owner.query('select from private.rate_limits where subject like $1', [
      `${address}%`,
    ]);
    expect(counted.rowCount).toBeGreaterThan(0);
  });

  test('executed no UPDATE or DELETE without WHERE, and detects one', async () => {
    expect(await project.unsafeWrites()).toEqual([]);
    await project.owner.execute(`
      create function public.unsafe() returns void language plpgsql as $$ begin delete from public.shop_texts; end $$;
      grant execute on function public.unsafe() to service_role;
      notify pgrst, 'reload schema';`);
    await vi.waitFor(
      async () => expect((await as(secret).rpc('unsafe' as 'is_admin')).error?.code).not.toBe('PGRST202'),
      { timeout: waitMs },
    );
    const { error } = await as(secret).rpc('unsafe' as 'is_admin');
    if (project.hasSafeupdate) expect(error?.message).toBe('DELETE requires a WHERE clause');
    else expect(await project.unsafeWrites()).toEqual(['delete from public.shop_texts']);
  });
});

/** Every right of the API roles on the shop's schemas, tables, columns and functions. */
async function rightsOf(database: Database): Promise<string[]> {
  const { rows } = await database.query<{ right: string }>(`
    with objects as (
      select 'schema' as kind, nspname::text as name, nspacl as acl from pg_namespace where nspname in ('public', 'private')
      union all
      select 'relation', oid::regclass::text, relacl from pg_class
      where relnamespace in ('public'::regnamespace, 'private'::regnamespace) and relkind in ('r', 'p', 'v', 'm', 'S')
      union all
      select 'column', attrelid::regclass || '.' || attname, attacl
      from pg_attribute join pg_class on pg_class.oid = attrelid
      where relnamespace in ('public'::regnamespace, 'private'::regnamespace) and attacl is not null
      union all
      select 'function', oid::regprocedure::text, coalesce(proacl, acldefault('f', proowner)) from pg_proc
      where pronamespace in ('public'::regnamespace, 'private'::regnamespace)
    )
    select concat_ws(' ', kind, name, lower(privilege_type), grantee::regrole) as right
    from objects, aclexplode(acl)
    where grantee = 0 or grantee::regrole::text in ('anon', 'authenticated', 'service_role')
    order by 1`);
  return rows.map(({ right }) => right);
}
