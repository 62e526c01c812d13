// A shop moves to PostgreSQL and back. Staff, customers and images do not notice.
import { execFile } from 'node:child_process';
import { readFile, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { GoTrueClient } from '@supabase/auth-js';
import { Secret, TOTP } from 'otpauth';
import { expect, test } from 'vitest';
import { withEmptyDatabase } from '../../scripts/databases/empty-database.ts';
import { type OpenShop, openShop } from '../../scripts/tests/open-shop.ts';
import { asOwner, makeAccount } from '../staff-member.ts';

type Account = Awaited<ReturnType<typeof makeAccount>>;

const picture = '/storage/v1/object/public/product-images/products/picture.png';
const codeSeconds = 30;

/** Runs `npm run move`. */
async function move(environment: Record<string, string>, to: string): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, ['scripts/move.mjs', '--to', to], {
    env: { ...process.env, ...environment },
  });
  return stdout;
}

async function clientOf(shop: OpenShop): Promise<GoTrueClient> {
  const { publishable } = await shop.keys();
  return new GoTrueClient({
    url: `${shop.url}/auth/v1`,
    headers: { apikey: publishable },
    persistSession: false,
    autoRefreshToken: false,
  });
}

async function callAsVisitor(
  shop: OpenShop,
  procedure: string,
  given: object,
): Promise<Record<string, unknown>> {
  const { publishable } = await shop.keys();
  const answer = await fetch(`${shop.url}/rest/v1/rpc/${procedure}`, {
    method: 'POST',
    headers: { apikey: publishable, 'content-type': 'application/json' },
    body: JSON.stringify(given),
  });
  expect(answer.ok, `${procedure}: ${answer.status}`).toBe(true);
  return (await answer.json()) as Record<string, unknown>;
}

async function placeOrder(shop: OpenShop): Promise<string> {
  const [product] = (await (
    await asOwner(shop, '/rest/v1/products?select=id,price&limit=1', 'GET')
  ).json()) as { id: string; price: number }[];
  const order = await callAsVisitor(shop, 'place_order', {
    idempotency_key: crypto.randomUUID(),
    product_id: product?.id,
    quantity: 1,
    customer_name: 'Amina Kamau',
    customer_email: 'amina@example.com',
    customer_phone: '0712345678',
    delivery_location: 'Westlands',
    expected_total: (product?.price ?? 0) + 100,
  });
  return String(order.tracking_number);
}

async function uploadPicture(shop: OpenShop): Promise<Buffer> {
  const { secret } = await shop.keys();
  const form = new FormData();
  const png = await readFile('web/public/apple-touch-icon.png');
  form.append('', new Blob([png], { type: 'image/png' }), 'picture.png');
  const upload = await fetch(`${shop.url}${picture.replace('public/', '')}`, {
    method: 'POST',
    headers: { apikey: secret },
    body: form,
  });
  expect(upload.status).toBe(200);
  return readPicture(shop);
}

async function readPicture(shop: OpenShop): Promise<Buffer> {
  const answer = await fetch(`${shop.url}${picture}`);
  expect(answer.status).toBe(200);
  return Buffer.from(await answer.arrayBuffer());
}

/** Each code is accepted once, and those of the next half minute are, too. */
let codes = 0;
const codeOf = (secret: Secret) => {
  codes += 1;
  return new TOTP({ secret, period: codeSeconds }).generate({
    timestamp: Date.now() + (codes - 1) * codeSeconds * 1000,
  });
};

async function signInWithFactor(
  shop: OpenShop,
  { email, password }: Account,
  factorId: string,
  secret: Secret,
) {
  const client = await clientOf(shop);
  const { error } = await client.signInWithPassword({ email, password });
  expect(error).toBeNull();
  const { data, error: refused } = await client.mfa.challengeAndVerify({ factorId, code: codeOf(secret) });
  expect(refused).toBeNull();
  return data?.refresh_token ?? '';
}

test.runIf(process.env.TEST_POSTGRESQL_URL)(
  'staff sign in with their second factor, sessions go on, orders are found and images show after a move and back',
  async () => {
    const first = await openShop({}, { fromNothing: true });
    const dataDir = dirname(first.outbox);
    const account = await makeAccount(first);
    const client = await clientOf(first);
    await client.signInWithPassword(account);
    const enrolled = await client.mfa.enroll({ factorType: 'totp', friendlyName: 'Phone' });
    const factorId = enrolled.data?.id ?? '';
    const secret = Secret.fromBase32(enrolled.data?.type === 'totp' ? enrolled.data.totp.secret : '');
    const verified = await client.mfa.challengeAndVerify({ factorId, code: codeOf(secret) });
    expect(verified.error).toBeNull();
    const refreshToken = verified.data?.refresh_token ?? '';
    const number = await placeOrder(first);
    const image = await uploadPicture(first);
    await first.kill();

    await withEmptyDatabase(async (url) => {
      expect(await move({ DATA_DIR: dataDir }, url)).toContain('Set DATABASE_URL to the new database');
      const second = await openShop({ DATABASE_URL: url }, { dataDir });
      const another = await placeOrder(second);
      const session = await (await clientOf(second)).refreshSession({ refresh_token: refreshToken });
      expect(session.error, 'a session of before').toBeNull();
      await signInWithFactor(second, account, factorId, secret);
      expect(await callAsVisitor(second, 'track_order', { tracking_number: number })).toMatchObject({
        tracking_number: number,
      });
      expect((await readPicture(second)).equals(image)).toBe(true);
      expect(second.problems()).toEqual([]);
      await second.close();

      const back = `${dataDir}-back`;
      expect(await move({ DATA_DIR: dataDir, DATABASE_URL: url }, back)).toContain(`set DATA_DIR to ${back}`);
      const third = await openShop({}, { fromNothing: true, dataDir: back });
      for (const tracked of [number, another]) {
        expect(await callAsVisitor(third, 'track_order', { tracking_number: tracked })).toMatchObject({
          tracking_number: tracked,
        });
      }
      expect((await readPicture(third)).equals(image)).toBe(true);
      await (await clientOf(third)).signInWithPassword(account);
      expect(third.problems()).toEqual([]);
      await third.close();
      await rm(back, { recursive: true, force: true });
    });
    await rm(dataDir, { recursive: true, force: true });
  },
  600_000,
);
