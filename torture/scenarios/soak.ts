// Many payments with faults: lost, duplicate and late callbacks, lost answers to pushes, failed queries.
import { createHash } from 'node:crypto';
import { cashFigures, payAtTheDoor } from '../actors/cash-customer.ts';
import { checkStatus, type Paid, type Purchase, payOrder, placeOrder } from '../actors/customer.ts';
import {
  actAfterPayment,
  buyReleasedUnit,
  cancelWhilePrompted,
  chooseDrinks,
  orderDrinks,
  purchaseOf,
} from '../actors/customer-traffic.ts';
import { deliveryFigures } from '../actors/delivery-customer.ts';
import { phoneOf } from '../actors/phone.ts';
import { countsBySource, openSimulation, refundFigures } from '../environment/simulation.ts';
import type { DarajaAction } from '../proxies/daraja-proxy.ts';
import type { Outcome } from '../report.ts';
import { seededRandom } from '../seeded-random.ts';

export interface Soak {
  seed: number;
  payments: number;
  /** Concurrent customers. */
  customers?: number;
  logs: string;
}

// Last digits of phones with a special outcome in the simulator, and their percentage of customers.
const endings: [ending: string, share: number][] = [
  ['0001', 2],
  ['1032', 3],
  ['1037', 2],
  ['2001', 1],
  ['9003', 5],
  ['9005', 2],
  ['9006', 2],
  ['9007', 1],
];

// Ways in which Daraja fails to answer a query.
const failedAnswers: DarajaAction[] = [
  'drop',
  {
    status: 200,
    body: '{"ResponseCode":"0","ResultCode":"4999","ResultDesc":"The transaction is still under processing"}',
  },
  {
    status: 500,
    body: '{"requestId":"1","errorCode":"500.001.1001","errorMessage":"The transaction is being processed"}',
  },
  { status: 500, body: '{"requestId":"1","errorCode":"500.003.02","errorMessage":"System is busy"}' },
  {
    status: 429,
    body: '{"fault":{"faultstring":"Spike arrest violation","detail":{"errorcode":"policies.ratelimit.SpikeArrestViolation"}}}',
  },
  { status: 403, body: '<html><head><title>Incapsula</title></head></html>', type: 'text/html' },
  { status: 400, body: '' },
  { status: 503, body: 'upstream connect error', type: 'text/plain' },
];

const refusals: DarajaAction[] = [
  { status: 500, body: '{"requestId":"1","errorCode":"500.003.02","errorMessage":"System is busy"}' },
  { status: 503, body: 'upstream connect error', type: 'text/plain' },
  { status: 403, body: '<html><head><title>Incapsula</title></head></html>', type: 'text/html' },
  {
    status: 429,
    body: '{"fault":{"faultstring":"Spike arrest violation","detail":{"errorcode":"policies.ratelimit.SpikeArrestViolation"}}}',
  },
];

/** Runs the scenario. */
export async function soak({ seed, payments, customers = 100, logs }: Soak): Promise<Outcome> {
  const counts = {
    'callbacks lost': 0,
    'callbacks doubled': 0,
    'callbacks delayed': 0,
    'push answers lost': 0,
    queries: 0,
    'queries failed': 0,
    'reversals refused or not answered': 0,
    'questions about refunds failed': 0,
  };
  const attempts = new Map<string, number>();
  let sendings = 0;
  let questions = 0;
  const simulation = await openSimulation(logs, {
    seed,
    singleUnits: Math.ceil(payments / 30),
    faults: {
      callback({ phone, path, body }) {
        // Callbacks without a phone are identified by their body.
        const subject = phone || createHash('sha256').update(body).digest('hex');
        const purpose = path.replace(/[0-9a-f]{64}/, '');
        const random = seededRandom(seed, `${purpose} ${subject} ${body.includes('"ResultCode":0')}`);
        if (random.is(0.2)) {
          counts['callbacks lost'] += 1;
          return { isLost: true };
        }
        const isDoubled = random.is(0.1);
        const delayMs = random.is(0.1) ? random.below(5_000) : 0;
        if (isDoubled) counts['callbacks doubled'] += 1;
        if (delayMs > 0) counts['callbacks delayed'] += 1;
        return { times: isDoubled ? 2 : 1, delayMs };
      },
      daraja(_, { call, phone, moment }) {
        if (call === 'push' && moment === 'answered' && seededRandom(seed, `push ${phone}`).is(0.05)) {
          counts['push answers lost'] += 1;
          return 'drop';
        }
        if (call === 'query' && moment === 'before') {
          const time = (attempts.get(phone) ?? 0) + 1;
          attempts.set(phone, time);
          counts.queries += 1;
          const random = seededRandom(seed, `query ${phone} ${time}`);
          // Always fail the first one, as short runs might fail none.
          if (counts['queries failed'] === 0 || random.is(0.2)) {
            counts['queries failed'] += 1;
            return random.pick(failedAnswers);
          }
        }
        if (call === 'reversal') {
          if (moment === 'before') sendings += 1;
          const random = seededRandom(seed, `reversal ${sendings} ${moment}`);
          if (random.is(0.1)) {
            counts['reversals refused or not answered'] += 1;
            // A request may be refused before it reaches M-PESA; afterwards only its answer can be lost.
            return moment === 'answered' || random.is(0.3) ? 'drop' : random.pick(refusals);
          }
        }
        if (call === 'status' && moment === 'before') {
          questions += 1;
          const random = seededRandom(seed, `status ${questions}`);
          if (random.is(0.2)) {
            counts['questions about refunds failed'] += 1;
            return random.pick(failedAnswers);
          }
        }
        return 'forward';
      },
    },
  });
  try {
    const startedAt = performance.now();
    const words = new Map<string, number>();
    const say = (word: string): void => {
      words.set(word, (words.get(word) ?? 0) + 1);
    };
    const note = (paid: Paid) => {
      if (paid.kind === 'prompted') return;
      say(`refused: ${paid.kind === 'refused' ? paid.code : `gave up: ${paid.last}`}`);
    };
    let next = 0;
    let attempts = 0;

    async function customer(index: number): Promise<void> {
      const random = seededRandom(seed, `customer ${index}`);
      const single = random.is(0.02) ? simulation.takeSingleUnit() : null;
      const purchase: Purchase = {
        ...(single ? purchaseOf(simulation, [single]) : chooseDrinks(simulation, random)),
        phone: phoneOf(index, '07', single ? '9006' : endingOf(random.below(100))),
        address: `10.${(index >> 16) & 255}.${(index >> 8) & 255}.${index & 255}`,
      };
      const shopping = simulation.shopping(() => random.below(2));
      const order = single
        ? await placeOrder(shopping, purchase)
        : await orderDrinks(simulation, shopping, purchase, random);
      if ('kind' in order) return note(order);
      // Some customers never pay.
      if (random.is(0.02)) return;
      if (!single && random.is(0.1)) {
        return say(`customers: ${await payAtTheDoor(simulation, shopping, purchase, order, random)}`);
      }
      attempts += 1;
      const paid = await payOrder(shopping, purchase, order);
      note(paid);
      if (paid.kind === 'prompted' && !single && random.is(0.04))
        return say(`customers: ${await cancelWhilePrompted(shopping, purchase, order, random)}`);
      let status = paid.kind === 'prompted' ? 'pending' : 'failed';
      for (let look = 0; look < 3 && status === 'pending' && paid.kind === 'prompted'; look += 1) {
        await new Promise((done) => setTimeout(done, 700));
        status = (await checkStatus(shopping, purchase, paid.reference)) ?? status;
      }
      if (status === 'completed' && random.is(0.4)) {
        return say(`customers: ${await actAfterPayment(simulation, shopping, purchase, order, random)}`);
      }
      if (status === 'failed' && single) {
        return say(`customers: ${await buyReleasedUnit(simulation, shopping, purchase, order, index)}`);
      }
      // After a failure some customers try another phone.
      if (status === 'failed' && random.is(0.7)) {
        attempts += 1;
        note(await payOrder(shopping, { ...purchase, phone: phoneOf(index, '01', '5678') }, order));
      }
    }

    await Promise.all(
      Array.from({ length: customers }, async () => {
        while (attempts < payments) {
          next += 1;
          await customer(next);
        }
      }),
    );
    const loadMs = performance.now() - startedAt;
    await simulation.staff.finish(300_000);
    const { tookMs, violations } = await simulation.waitForRest(600_000, 10_000);
    const [figures] = await simulation.query(
      `select count(*)::integer as attempts,
              count(*) filter (where status = 'completed')::integer as completed,
              count(*) filter (where status = 'failed')::integer as failed,
              count(*) filter (where status = 'review')::integer as review,
              count(*) filter (where status in ('initiating', 'processing', 'unresolved'))::integer as open,
              count(*) filter (where needs_refund)::integer as "to refund",
              count(*) filter (where status = 'completed' and receipt is null)::integer as "without receipt",
              (select count(*)::integer from public.payment_messages) as messages,
              (select count(*)::integer from public.orders where discount_code is not null) as "orders with a discount code",
              (select count(*)::integer from public.change_notes where kind = 'used') as "uses of credit"
       from public.payments`,
    );
    const page = await simulation.ledger();
    return {
      name: 'soak',
      figures: {
        'orders placed': next,
        ...figures,
        ...(await countsBySource(simulation)),
        ...(await refundFigures(simulation)),
        ...(await deliveryFigures(simulation)),
        ...(await cashFigures(simulation)),
        'prompts in the ledger': page.prompts.length,
        'transactions in the ledger': page.transactions.length,
        ...counts,
        ...Object.fromEntries([...words].sort()),
        'load, seconds': Math.round(loadMs / 1000),
        'at rest after, seconds': Math.round(tookMs / 1000),
      },
      violations,
      durationMs: performance.now() - startedAt,
    };
  } finally {
    await simulation.close();
  }
}

function endingOf(drawn: number): string {
  let passed = 0;
  for (const [ending, share] of endings) {
    passed += share;
    if (drawn < passed) return ending;
  }
  return '5678';
}
