// Reading changes nothing: every URL that answers GET is opened as scanners and previews open it, and the database stays the same.
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { listAuthPaths, listPagePaths, listStoragePaths } from '../../../scripts/checks/readable-paths.ts';
import {
  type Cluster,
  findPostgresql,
  startThrowawayPostgresql,
} from '../../../scripts/databases/throwaway-postgresql.ts';
import { type OpenShop, openShop } from '../../../scripts/tests/open-shop.ts';
import { linkInMail, newsletterLinkIn, nextMail } from '../../mailbox.ts';
import { placePaidOrder } from '../../placed-orders.ts';
import { addRider, openLinkOf } from '../../riders.ts';
import { asOwner, makeAccount, sessionOf } from '../../staff-member.ts';

/** Paths of GoTrue's protocol that change something, and why no scanner or preview opens them. */
const changing: Record<string, string> = {
  '/verify': "GoTrue's link, which our emails do not contain",
  '/callback': 'the return from an identity provider, with a state that is valid once and ten minutes',
  '/authorize': 'the start of a sign-in with an identity provider',
  '/user/identities/authorize': 'the same, with an access token',
  '/reauthenticate': 'needs an access token',
};

const hasPostgresql = (await findPostgresql()) !== null;

describe.skipIf(!hasPostgresql)('reading', () => {
  let cluster: Cluster;
  let shop: OpenShop;
  let database: pg.Client;
  beforeAll(async () => {
    cluster = await startThrowawayPostgresql({});
    shop = await openShop({ DATABASE_URL: cluster.url });
    database = new pg.Client({ connectionString: cluster.url });
    await database.connect();
  });
  afterAll(async () => {
    await database.end();
    await shop.close();
    await cluster.stop();
  });

  /** A hash of each table. */
  const tables = async (): Promise<Record<string, string>> => {
    const { rows } = await database.query(
      `select format('%I.%I', schemaname, tablename) as name from pg_tables
       where schemaname not in ('pg_catalog', 'information_schema')
         -- A rider's link counts against the limit of guesses.
         and tablename <> 'rate_limits' order by 1`,
    );
    const hashes: [string, string][] = [];
    for (const { name } of rows as { name: string }[]) {
      const { rows: found } = await database.query(
        `select md5(coalesce(string_agg(t::text, ',' order by t::text), '')) as hash from ${name} t`,
      );
      hashes.push([name, found[0].hash]);
    }
    return Object.fromEntries(hashes);
  };

  test('opening any URL, several times, changes no row', async () => {
    const account = await makeAccount(shop, 'staff');
    const { access_token: token } = await sessionOf(shop, account);
    const { secret, publishable } = await shop.keys();
    const order = await placePaidOrder(shop, 'Amina');
    const { rows } = await database.query(
      'select o.tracking_number, k.access_key from public.orders o join private.order_keys k on k.order_id = o.id where o.id = $1',
      [order.id],
    );
    const { tracking_number: trackingNumber, access_key: key } = rows[0];
    await fetch(`${shop.url}/auth/v1/recover`, {
      method: 'POST',
      headers: { apikey: publishable, 'content-type': 'application/json' },
      body: JSON.stringify({ email: account.email }),
    });
    const link = new URL(await linkInMail(shop.outbox, account.email));
    await asOwner(shop, '/rest/v1/rpc/subscribe_to_newsletter', 'POST', { email: 'reader@mail.example' });
    const mail = await nextMail(shop.outbox, 'reader@mail.example');
    const newsletter = new URL(newsletterLinkIn(mail, 'confirm')).searchParams.get('token');

    const values = {
      slug: 'mango-bottle',
      trackingNumber,
      code: `${String(trackingNumber).replace('JJ-', '')}-x`,
      page: 'receipt',
      orderId: order.id,
      day: '2026-11-01',
      phone: '254712345678',
      secret:
        String(await openLinkOf(shop, await addRider(shop, 'Reader')))
          .split('/')
          .at(-1) ?? '',
    };
    const pages = ['confirm', 'unsubscribe'].flatMap((step) => listPagePaths({ ...values, step }));
    const tokens = `token=${newsletter}&key=${key}&token_hash=${link.searchParams.get('token_hash')}&type=recovery`;
    const auth = listAuthPaths()
      .filter((path) => !Object.hasOwn(changing, path))
      .map((path) => `/auth/v1${path.replace(/:\w+/g, account.id)}`);
    const storage = (await listStoragePaths()).map(
      (path) => `/storage/v1${path.replace('{bucket}', 'product-images').replace('{key}', 'none.png')}`,
    );
    const description = await (await asOwner(shop, '/rest/v1/', 'GET')).json();
    const rest = Object.keys(description.paths).map((path) => `/rest/v1${path}`);
    const others = [
      '/healthz',
      '/readyz',
      '/metrics',
      '/api/event',
      '/functions/v1/mobile-money',
      '/realtime/v1/websocket',
    ];
    const urls = [
      ...pages.map((path) => `${path}?${tokens}`),
      link.pathname + link.search,
      ...auth,
      ...storage,
      ...rest,
      ...others,
    ];
    expect(urls.length).toBeGreaterThan(150);
    expect([pages.length, auth.length, storage.length].every((count) => count > 8)).toBe(true);

    const credentials: Record<string, string>[] = [
      {},
      { apikey: secret, authorization: `Bearer ${secret}` },
      { apikey: publishable, authorization: `Bearer ${token}` },
    ];
    const openEverything = async () => {
      for (const url of new Set(urls)) {
        for (const headers of credentials) {
          for (const method of ['HEAD', 'GET']) {
            const answer = await fetch(shop.url + url, { method, headers });
            await answer.arrayBuffer();
          }
        }
      }
    };
    const changedSince = async (earlier: Record<string, string>) =>
      Object.entries(await tables()).flatMap(([name, hash]) => (hash === earlier[name] ? [] : [name]));
    // The shop's jobs change rows, too: in one of the rounds none of them does.
    let before = await tables();
    let changed: string[] = [];
    for (let round = 0; round < 6; round += 1) {
      before = await tables();
      await openEverything();
      changed = await changedSince(before);
      if (changed.length === 0) break;
    }
    expect(changed).toEqual([]);

    // The tokens were valid, so a press would have changed something.
    for (const [path, table] of [
      [`/newsletter/confirm?token=${newsletter}`, 'public.newsletter_subscriptions'],
      ['/auth/v1/verify/confirm', 'auth.one_time_tokens'],
    ] as const) {
      const answer = await fetch(shop.url + path, {
        method: 'POST',
        body: link.searchParams,
        redirect: 'manual',
      });
      expect(answer.status, (await answer.text()).slice(0, 300)).toBeLessThan(400);
      expect(await changedSince(before)).toContain(table);
    }
  }, 300_000);
});
