// Access rules for strangers. Each check attacks a rule and verifies that customers can still order, pay and track.
import { randomUUID } from 'node:crypto';
import { readdir, readFile, stat } from 'node:fs/promises';
import type { AbusedShop } from './abused-shop.ts';
import { clientFrom } from './client.ts';
import { riderRules } from './rider-rules.ts';
import { type Found, initiate, place, type Rule, type Visit } from './visit.ts';

/**
 * Tries one wrong tracking number from each address.
 * @returns how many were answered, and in how many windows of the limit (ten minutes) they were tried
 */
async function guess(visit: Visit, addresses: string[]) {
  const window = () => Math.floor(Date.now() / 600_000);
  const first = window();
  let answered = 0;
  for (const [index, address] of addresses.entries()) {
    const { status } = await visit.call(address, 'track_order', {
      tracking_number: `JJ-20260101-${1000 + index}`,
    });
    if (status === 200) answered += 1;
  }
  return { answered, windows: window() - first + 1 };
}

const rules: readonly Rule[] = [
  {
    name: 'H1: a stranger with the tracking number cannot prompt, and the customer pays',
    async check(visit) {
      const { order } = await place(visit, '102.1.1.1', '0712001000');
      if (!order) return 'the customer could not order';
      const seen = await visit.call('203.0.113.5', 'track_order', { tracking_number: order.tracking_number });
      if (seen.body.includes(order.id)) return 'a masked look-up shows the id of the order';
      for (let attempt = 0; attempt < 12; attempt += 1) {
        const guess = {
          ...order,
          id: attempt % 2 ? randomUUID() : String(JSON.parse(seen.body).live_handle ?? randomUUID()),
        };
        const { body } = await initiate(visit, '203.0.113.5', guess, '0712001032');
        if (JSON.parse(body).success) return 'a stranger could prompt';
      }
      const paid = await initiate(visit, '102.1.1.1', order, '0712001000');
      return JSON.parse(paid.body).success ? undefined : `the customer was refused: ${paid.body}`;
    },
  },
  {
    name: 'H1: the id of one order does not pay with the tracking number of another',
    async check(visit) {
      const [one, other] = [
        await place(visit, '102.1.2.1', '0712002000'),
        await place(visit, '102.1.2.1', '0712002001'),
      ];
      if (!one.order || !other.order) return 'the customer could not order';
      const mixed = { ...one.order, tracking_number: other.order.tracking_number };
      const { body } = await initiate(visit, '102.1.2.1', mixed, '0712002000');
      return JSON.parse(body).success ? 'it did' : undefined;
    },
  },
  {
    name: 'H1: orders of many networks ring one phone 20 times, and its owner still pays by prompt',
    async check(visit) {
      // The simulator declines the prompts of this phone, and refuses others while one is open, as M-PESA does.
      const victim = '0712441032';
      let rings = 0;
      let isBounded = false;
      for (let network = 0; network < 120 && !isBounded && rings <= 20; network += 1) {
        const { order } = await place(visit, `102.7.${network}.1`, `07450${10_000 + network}`);
        if (!order) return 'the stranger could not order, so the rule was not tested';
        const { success, code } = JSON.parse(
          (await initiate(visit, `102.7.${network}.1`, order, victim)).body,
        );
        if (success) rings += 1;
        isBounded = code === 'too_many_unanswered_prompts';
        await new Promise((done) => setTimeout(done, 500));
      }
      if (!isBounded) return `it rang ${rings} times, and nothing ended it`;
      const { order } = await place(visit, '102.8.1.1', victim);
      if (!order) return 'the owner could not order';
      const answers: string[] = [];
      // M-PESA allows one prompt per phone at a time, and the stranger's last one may still be open.
      for (let second = 0; second < 20; second += 1) {
        const { body } = await initiate(visit, '102.8.1.1', order, victim);
        if (JSON.parse(body).success) return undefined;
        answers.push(body);
        await new Promise((done) => setTimeout(done, 1000));
      }
      return `the owner was refused: ${answers.at(-1)}`;
    },
  },
  {
    name: "wrong payment ids of a neighbour do not hide the customer's payment",
    async check(visit) {
      const neighbours = '102.9.1.1';
      const { order } = await place(visit, neighbours, '0712004000');
      if (!order) return 'the customer could not order';
      const { checkoutRequestId } = JSON.parse((await initiate(visit, neighbours, order, '0712004000')).body);
      const ask = (id: string) =>
        visit.post(neighbours, '/functions/v1/mobile-money', {
          action: 'check-status',
          checkoutRequestId: id,
        });
      let refused = 0;
      for (let guess = 0; guess < 70; guess += 1)
        if ((await ask(`ws_CO_${guess}`)).status === 429) refused += 1;
      if (refused === 0) return 'a stranger may guess without a limit';
      const { status, body } = await ask(checkoutRequestId);
      return status === 200 ? undefined : `the customer was refused: ${body}`;
    },
  },
  {
    name: 'H2: 26 orders from 26 /64s of a /48 do not take every unit of 26 drinks',
    async check(visit) {
      const { body } = await visit.own('GET', '/rest/v1/products?select=id,price&is_active=is.true&limit=26');
      const products = JSON.parse(body) as { id: string; price: number }[];
      await visit.own('PATCH', '/rest/v1/products?is_active=is.true', { stock_quantity: 3 });
      for (const [index, { id, price }] of products.entries()) {
        const network = `2001:db8:77:${index.toString(16)}::1`;
        await place(visit, network, `07220${String(10_000 + index)}`, { id, total: price + 100 }, 3);
      }
      const left = JSON.parse(
        (await visit.own('GET', '/rest/v1/products?select=stock_quantity&is_active=is.true')).body,
      ) as {
        stock_quantity: number;
      }[];
      const soldOut = left.filter(({ stock_quantity }) => stock_quantity === 0).length;
      await visit.own('PATCH', '/rest/v1/products?is_active=is.true', { stock_quantity: 100_000 });
      return soldOut > products.length / 4 ? `${soldOut} of ${left.length} drinks were sold out` : undefined;
    },
  },
  {
    name: 'H2: 2,000 wrong tracking numbers from 2,000 /64s of a /48 are not all answered',
    async check(visit) {
      const addresses = Array.from({ length: 2000 }, (_, index) => `2001:db8:88:${index.toString(16)}::1`);
      const { answered, windows } = await guess(visit, addresses);
      return answered > 600 * windows ? `${answered} were, in ${windows} windows` : undefined;
    },
  },
  {
    name: 'M2: 50 unpaid orders send no texts and no mails to strangers',
    async check(visit) {
      const count = async () => (await readdir(visit.shop.outbox).catch(() => [])).length;
      const before = await count();
      for (let index = 0; index < 50; index += 1)
        await place(visit, '102.2.1.1', `07330${String(10_000 + index)}`);
      await new Promise((done) => setTimeout(done, 8000));
      const sent = (await count()) - before;
      return sent > 0 ? `${sent} were sent` : undefined;
    },
  },
  {
    name: 'M3: one address does not walk through the numbers of a day',
    async check(visit) {
      const { answered, windows } = await guess(visit, Array(500).fill('203.0.114.9'));
      return answered > 100 * windows ? `${answered} of 500 were, in ${windows} windows` : undefined;
    },
  },
  {
    name: "M4: a stranger's wrong digits do not refuse the customer's right ones",
    async check(visit) {
      const { order } = await place(visit, '102.3.1.1', '0712004321');
      if (!order) return 'the customer could not order';
      const look = (address: string, digits: string) =>
        visit.call(address, 'track_order', {
          tracking_number: order.tracking_number,
          phone_last_four: digits,
        });
      let refused = 0;
      for (let guess = 0; guess < 12; guess += 1) {
        const reply = await look('203.0.115.9', String(1000 + guess));
        if (reply.status === 429) refused += 1;
      }
      if (refused === 0) return 'a stranger may guess without a limit';
      const { body } = await look('102.3.9.1', '4321');
      return JSON.parse(body).is_masked === false ? undefined : `the customer was refused: ${body}`;
    },
  },
  {
    name: 'M5: wrong passwords from two networks do not refuse the right one from a third',
    async check(visit) {
      const email = 'owner@example.com';
      const password = 'tamarind-under-a-dusky-sky';
      const created = await visit.own('POST', '/auth/v1/admin/users', {
        email,
        password,
        email_confirm: true,
      });
      if (created.status !== 200) return `no account: ${created.body}`;
      const signIn = (address: string, guess: string) =>
        visit.post(address, '/auth/v1/token?grant_type=password', { email, password: guess });
      let refused = 0;
      for (let guess = 0; guess < 24; guess += 1) {
        const { status } = await signIn(
          guess % 2 ? '203.0.116.9' : '198.51.100.9',
          `wrong-password-${guess}`,
        );
        if (status === 429) refused += 1;
      }
      if (refused === 0) return 'a stranger may guess without a limit';
      const { status, body } = await signIn('102.4.1.1', password);
      return status === 200 ? undefined : `the owner was refused: ${body}`;
    },
  },
  {
    name: 'a repeated order is answered although others have used up the limit of its network',
    async check(visit) {
      const form = {
        idempotency_key: randomUUID(),
        product_id: visit.shop.product.id,
        quantity: 1,
        customer_name: 'Amina Kamau',
        customer_email: 'amina@example.com',
        customer_phone: '0712003000',
        delivery_location: 'Westlands',
        expected_total: visit.shop.product.total,
      };
      const first = await visit.call('102.5.1.1', 'place_order', form);
      if (first.status !== 200) return `the customer could not order: ${first.body}`;
      let refused = 0;
      for (let guess = 0; guess < 120; guess += 1) {
        const unreadable = { ...form, idempotency_key: randomUUID(), customer_phone: 'none' };
        if ((await visit.call('102.5.1.1', 'place_order', unreadable)).status === 429) refused += 1;
      }
      if (refused === 0) return 'a stranger may order without a limit';
      const repeated = await visit.call('102.5.1.1', 'place_order', form);
      return repeated.body === first.body ? undefined : `the customer was refused: ${repeated.body}`;
    },
  },
  {
    name: 'unpaid orders of 60 networks that are due together end in one run',
    async check(visit) {
      for (let network = 0; network < 60; network += 1)
        await place(visit, `102.6.${network}.1`, `07440${String(10_000 + network)}`);
      const due = new Date(Date.now() - 1000).toISOString();
      const pending = '/rest/v1/orders?select=id&customer_phone=like.*74401*&status=eq.pending';
      const listed = async () => (JSON.parse((await visit.own('GET', pending)).body) as unknown[]).length;
      if ((await listed()) !== 60) return `${await listed()} of 60 orders were placed`;
      await visit.own('PATCH', pending, { reserved_until: due, expires_at: due });
      // The job runs every 30 seconds.
      for (let second = 0; second < 45 && (await listed()) > 0; second += 1)
        await new Promise((done) => setTimeout(done, 1000));
      const left = await listed();
      return left > 0 ? `${left} of 60 still waited after 45 seconds` : undefined;
    },
  },
  {
    name: 'M6: 300 form posts from another site leave few lines in the log',
    async check(visit) {
      const sizeBefore = (await stat(visit.shop.logFile)).size;
      const client = clientFrom(visit.shop.target.port, '127.67.0.1');
      for (let index = 0; index < 300; index += 1) {
        await client.send({
          method: 'POST',
          path: '/contact',
          headers: {
            'content-type': 'application/x-www-form-urlencoded',
            origin: 'https://attacker.example',
          },
          body: 'firstName=A',
        });
      }
      client.close();
      await new Promise((done) => setTimeout(done, 500));
      const written = (await readFile(visit.shop.logFile)).subarray(sizeBefore).toString();
      if (/^\s+at /m.test(written) || /"level":"error"/.test(written))
        return 'stack traces or errors were written';
      return written.length > 20_000 ? `${written.length} bytes were written` : undefined;
    },
  },
];

/** Checks the selected rules one after the other. */
export async function checkRules(
  shop: AbusedShop,
  isWanted: (rule: { name: string }) => boolean,
): Promise<{ name: string; found: Found }[]> {
  const client = clientFrom(shop.target.port, '127.0.0.1');
  const send = (key: string, address: string | null, method: string, path: string, body?: unknown) =>
    client.send({
      method,
      path,
      headers: {
        apikey: key,
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        ...(address ? { 'x-forwarded-for': address } : {}),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  const visit: Visit = {
    shop,
    call: (address, procedure, body) =>
      send(shop.target.publishableKey, address, 'POST', `/rest/v1/rpc/${procedure}`, body),
    own: (method, path, body) => send(shop.secretKey, null, method, path, body),
    post: (address, path, body) => send(shop.target.publishableKey, address, 'POST', path, body),
    readWith: (token, path) =>
      client.send({
        path,
        headers: { apikey: shop.target.publishableKey, authorization: `Bearer ${token}` },
      }),
    open: (address, path) => client.send({ path, headers: { 'x-forwarded-for': address } }),
  };
  const results: { name: string; found: Found }[] = [];
  for (const { name, check } of [...rules, ...riderRules].filter(isWanted)) {
    results.push({ name, found: await check(visit).catch((error: unknown) => `it failed: ${error}`) });
  }
  client.close();
  return results;
}
