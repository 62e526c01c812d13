// What the secret of a rider's link does not open, and how often strangers may guess one.
import { randomBytes, randomUUID } from 'node:crypto';
import { initiate, type Placed, place, type Rule, type Visit } from './visit.ts';

interface Rider {
  id: string;
  name: string;
  phone: string;
}

interface Job {
  rider: Rider;
  secret: string;
  order: Placed;
  /** Of the customer, in the form of the database. */
  phone: string;
  deliveryId: string;
}

const riderAddress = '102.11.9.1';
const strangerAddress = '203.0.118.9';
let jobs = 0;

async function callAsOwner<Answer>(visit: Visit, procedure: string, given: unknown): Promise<Answer> {
  const { status, body } = await visit.own('POST', `/rest/v1/rpc/${procedure}`, given);
  if (status >= 300) throw new Error(`${procedure}: ${body}`);
  return (body ? JSON.parse(body) : null) as Answer;
}

const openLink = async (visit: Visit, rider_id: string) =>
  (await callAsOwner<{ secret: string }>(visit, 'open_rider_link', { rider_id })).secret;

/** A rider with a link and a paid order. */
async function giveJob(visit: Visit): Promise<Job> {
  jobs += 1;
  // The simulator lets payments of phones that end like this succeed.
  const local = `071255${String(5000 + jobs)}`;
  const { order, reply } = await place(visit, `102.11.${jobs}.1`, local);
  if (!order) throw new Error(`the customer could not order: ${reply.body}`);
  const started = await initiate(visit, `102.11.${jobs}.1`, order, local);
  if (!JSON.parse(started.body).success) throw new Error(`the customer could not pay: ${started.body}`);
  const deliveries = `/rest/v1/deliveries?order_id=eq.${order.id}`;
  const read = async () => JSON.parse((await visit.own('GET', deliveries)).body) as { id: string }[];
  for (let second = 0; second < 60 && (await read()).length === 0; second += 1)
    await new Promise((done) => setTimeout(done, 1000));
  const [delivery] = await read();
  if (!delivery) throw new Error('the payment did not arrive');
  const rider = await callAsOwner<Rider>(visit, 'save_rider', {
    name: `Rider ${jobs}`,
    phone: `071133${String(1000 + jobs)}`,
    vehicle: 'Motorbike',
  });
  await visit.own('PATCH', deliveries, {
    delivery_status: 'assigned',
    delivery_person: rider.name,
    delivery_phone: rider.phone,
    delivery_vehicle: 'Motorbike',
  });
  const secret = await openLink(visit, rider.id);
  return { rider, secret, order, phone: local.replace(/^0/, '+254'), deliveryId: delivery.id };
}

const readPage = (visit: Visit, address: string, secret: string) =>
  visit.call(address, 'rider_page', { secret });
const press = (visit: Visit, address: string, secret: string, delivery_id: string) =>
  visit.call(address, 'rider_press', { secret, press_key: randomUUID(), delivery_id, step: 'picked_up' });
const newSecret = () => randomBytes(18).toString('base64url');

async function statusOf(visit: Visit, { deliveryId }: Job): Promise<string | undefined> {
  const { body } = await visit.own('GET', `/rest/v1/deliveries?id=eq.${deliveryId}&select=delivery_status`);
  return (JSON.parse(body) as { delivery_status: string }[])[0]?.delivery_status;
}

/** Undefined if the rider reads the own job and can work on it, otherwise the problem. */
async function work(visit: Visit, job: Job): Promise<string | undefined> {
  const page = await readPage(visit, riderAddress, job.secret);
  if (page.status !== 200 || !page.body.includes(job.phone))
    return `the rider does not read the own job: ${page.status} ${page.body}`;
  const shown = await visit.open(riderAddress, `/ride/${job.secret}`);
  if (shown.status !== 200 || !shown.body.includes(job.phone.slice(-6)))
    return `the page of the rider does not show the own job: ${shown.status}`;
  const { body } = await press(visit, riderAddress, job.secret, job.deliveryId);
  return JSON.parse(body).press?.outcome === 'done'
    ? undefined
    : `the press of the rider was refused: ${body}`;
}

export const riderRules: readonly Rule[] = [
  {
    name: 'riders: guessed secrets open nothing, and are answered within the limit of their network alone',
    async check(visit) {
      const job = await giveJob(visit);
      const window = () => Math.floor(Date.now() / 600_000);
      const first = window();
      const statuses = new Map<number, number>();
      for (let guess = 0; guess < 1300; guess += 1) {
        const reply =
          guess % 10 === 0
            ? await visit.open(strangerAddress, `/ride/${newSecret()}`)
            : await readPage(visit, strangerAddress, newSecret());
        if (reply.body.includes(job.phone)) return 'a guess shows a customer';
        statuses.set(reply.status, (statuses.get(reply.status) ?? 0) + 1);
      }
      const counts = JSON.stringify(Object.fromEntries(statuses));
      const windows = window() - first + 1;
      if ([...statuses.keys()].some((status) => status !== 410 && status !== 429))
        return `answers: ${counts}`;
      if ((statuses.get(410) ?? 0) > 1200 * windows) return `${counts} in ${windows} windows`;
      if (windows === 1 && !statuses.has(429)) return `a stranger may guess without a limit: ${counts}`;
      let refused = 0;
      for (let guess = 0; guess < 320; guess += 1)
        if ((await press(visit, strangerAddress, newSecret(), job.deliveryId)).status === 429) refused += 1;
      if (refused === 0 && window() === first) return 'a stranger may press without a limit';
      // Beyond the limit an answer says nothing about a secret, right or wrong.
      const right = await readPage(visit, strangerAddress, job.secret);
      if (window() === first && right.status !== 429)
        return `a secret that exists is answered with ${right.status} beyond the limit`;
      return work(visit, job);
    },
  },
  {
    name: 'riders: a revoked, replaced, ended or foreign link reads nothing and presses nothing',
    async check(visit) {
      const [job, colleague] = [await giveJob(visit), await giveJob(visit)];
      const replaced = job.secret;
      const secret = await openLink(visit, job.rider.id);
      const others: Record<string, string> = { replaced };
      for (const kind of ['revoked', 'ended']) {
        const rider = await callAsOwner<Rider>(visit, 'save_rider', {
          name: kind,
          phone: `0711440${kind === 'revoked' ? 101 : 102}`,
          vehicle: 'Van',
        });
        const link = await openLink(visit, rider.id);
        if ((await readPage(visit, riderAddress, link)).status !== 200)
          return `the ${kind} link never worked`;
        if (kind === 'revoked') await callAsOwner(visit, 'revoke_rider_link', { rider_id: rider.id });
        else
          await visit.own('PATCH', `/rest/v1/rider_links?rider_id=eq.${rider.id}`, {
            expires_at: new Date(Date.now() - 1000).toISOString(),
          });
        others[kind] = link;
      }
      for (const [kind, link] of Object.entries(others)) {
        const answers = [
          await readPage(visit, riderAddress, link),
          await visit.open(riderAddress, `/ride/${link}`),
          await press(visit, riderAddress, link, job.deliveryId),
        ];
        const statuses = answers.map(({ status }) => status);
        if (statuses.join() !== '410,410,410') return `a ${kind} link is answered with ${statuses}`;
        if (answers.some(({ body }) => body.includes(job.phone))) return `a ${kind} link shows a customer`;
      }
      const foreign = await press(visit, riderAddress, colleague.secret, job.deliveryId);
      if (JSON.parse(foreign.body).press?.outcome !== 'not_yours')
        return `a foreign link pressed: ${foreign.body}`;
      if (foreign.body.includes(job.phone)) return 'a foreign link shows a customer';
      const status = await statusOf(visit, job);
      if (status !== 'assigned') return `the delivery is ${status}`;
      return (await work(visit, { ...job, secret })) ?? work(visit, colleague);
    },
  },
  {
    name: "riders: a rider's secret reads no other customer's data, and is a key to nothing else",
    async check(visit) {
      const [job, other] = [await giveJob(visit), await giveJob(visit)];
      const page = await readPage(visit, riderAddress, job.secret);
      const isOf = ({ phone, order, deliveryId }: Job) => [
        phone,
        order.id,
        order.tracking_number,
        deliveryId,
      ];
      const found = isOf(other).find((text) => page.body.includes(text));
      if (found) return `the page shows ${found} of another customer`;
      const own = [job.order.id, job.order.tracking_number, job.order.access_key, 'example.com'];
      const hidden = own.find((text) => page.body.includes(text));
      if (hidden) return `the page shows ${hidden}, which the rider does not need`;
      const tracked = await visit.call(riderAddress, 'track_order', {
        tracking_number: job.order.tracking_number,
        access_key: job.secret,
      });
      if (JSON.parse(tracked.body).is_masked !== true) return 'the secret opens the order as its access key';
      const held = await visit.call(riderAddress, 'orders_by_access_key', { access_keys: [job.secret] });
      if (held.body !== '[]') return `the secret lists orders: ${held.body}`;
      for (const table of ['orders', 'deliveries', 'riders', 'rider_links', 'ratings']) {
        const { status, body } = await visit.readWith(job.secret, `/rest/v1/${table}?select=*`);
        if (status < 400) return `the secret as a token reads ${table}: ${status} ${body.slice(0, 200)}`;
      }
      // Positive control: the access key of the customer opens the order.
      const opened = await visit.call('102.11.1.1', 'track_order', {
        tracking_number: job.order.tracking_number,
        access_key: job.order.access_key,
      });
      if (JSON.parse(opened.body).is_masked !== false) return `the customer is refused: ${opened.body}`;
      return (await work(visit, job)) ?? work(visit, other);
    },
  },
];
