// Many payments over bad roads: notices lost, doubled and late, answers to pushes lost, queries that fail.
import { createHash } from 'node:crypto';
import { chanceOf } from './chance.ts';
import { lookAt, type Paid, type Purchase, payOrder, placeOrder } from './customer.ts';
import type { DarajaFate } from './daraja-road.ts';
import { phoneOf } from './phone.ts';
import type { Outcome } from './report.ts';
import { openTown, recognisedBy, refundFigures } from './town.ts';
import { buyWhatWasKept, thinkAgain } from './town-life.ts';

export interface Soak {
  seed: number;
  payments: number;
  /** Customers at the same time. */
  customers?: number;
  logs: string;
}

// Endings that make the pretend phone do something of its own, and how many in a hundred customers have one.
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

// In the ways in which Daraja fails to answer a query.
const failedAnswers: DarajaFate[] = [
  'lost',
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

const refusals: DarajaFate[] = [
  { status: 500, body: '{"requestId":"1","errorCode":"500.003.02","errorMessage":"System is busy"}' },
  { status: 503, body: 'upstream connect error', type: 'text/plain' },
  { status: 403, body: '<html><head><title>Incapsula</title></head></html>', type: 'text/html' },
  {
    status: 429,
    body: '{"fault":{"faultstring":"Spike arrest violation","detail":{"errorcode":"policies.ratelimit.SpikeArrestViolation"}}}',
  },
];

/** Runs it and gives what was found. */
export async function soak({ seed, payments, customers = 100, logs }: Soak): Promise<Outcome> {
  const counts = {
    'notices lost': 0,
    'notices doubled': 0,
    'notices delayed': 0,
    'push answers lost': 0,
    queries: 0,
    'queries failed': 0,
    'reversals refused or not answered': 0,
    'questions about refunds failed': 0,
  };
  const asked = new Map<string, number>();
  let sendings = 0;
  let questions = 0;
  const town = await openTown(logs, {
    seed,
    singles: Math.ceil(payments / 30),
    roads: {
      notice({ phone, path, body }) {
        // Those without a phone are told apart by their words.
        const subject = phone || createHash('sha256').update(body).digest('hex');
        const purpose = path.replace(/[0-9a-f]{64}/, '');
        const chance = chanceOf(seed, `${purpose} ${subject} ${body.includes('"ResultCode":0')}`);
        if (chance.is(0.2)) {
          counts['notices lost'] += 1;
          return { isLost: true };
        }
        const isDoubled = chance.is(0.1);
        const delayMs = chance.is(0.1) ? chance.below(5_000) : 0;
        if (isDoubled) counts['notices doubled'] += 1;
        if (delayMs > 0) counts['notices delayed'] += 1;
        return { times: isDoubled ? 2 : 1, delayMs };
      },
      daraja(_, { call, phone, moment }) {
        if (call === 'push' && moment === 'answered' && chanceOf(seed, `push ${phone}`).is(0.05)) {
          counts['push answers lost'] += 1;
          return 'lost';
        }
        if (call === 'query' && moment === 'before') {
          const time = (asked.get(phone) ?? 0) + 1;
          asked.set(phone, time);
          counts.queries += 1;
          const chance = chanceOf(seed, `query ${phone} ${time}`);
          // The first in any case: of a few, chance may spare all.
          if (counts['queries failed'] === 0 || chance.is(0.2)) {
            counts['queries failed'] += 1;
            return chance.pick(failedAnswers);
          }
        }
        if (call === 'reversal') {
          if (moment === 'before') sendings += 1;
          const chance = chanceOf(seed, `reversal ${sendings} ${moment}`);
          if (chance.is(0.1)) {
            counts['reversals refused or not answered'] += 1;
            // Before it has reached M-PESA it may be refused; what M-PESA has taken can only remain without an answer.
            return moment === 'answered' || chance.is(0.3) ? 'lost' : chance.pick(refusals);
          }
        }
        if (call === 'status' && moment === 'before') {
          questions += 1;
          const chance = chanceOf(seed, `status ${questions}`);
          if (chance.is(0.2)) {
            counts['questions about refunds failed'] += 1;
            return chance.pick(failedAnswers);
          }
        }
        return 'on';
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
      if (paid.kind === 'asked') return;
      say(`refused: ${paid.kind === 'refused' ? paid.code : `gave up: ${paid.last}`}`);
    };
    let next = 0;
    let attempts = 0;

    async function customer(index: number): Promise<void> {
      const chance = chanceOf(seed, `customer ${index}`);
      const single = chance.is(0.02) ? town.takeSingle() : null;
      const product = single ?? chance.pick(town.products);
      const purchase: Purchase = {
        productId: product.id,
        total: product.price + town.deliveryFee,
        phone: phoneOf(index, '07', single ? '9006' : endingOf(chance.below(100))),
        address: `10.${(index >> 16) & 255}.${(index >> 8) & 255}.${index & 255}`,
      };
      const shopping = town.shopping(() => chance.below(2));
      const order = await placeOrder(shopping, purchase);
      if ('kind' in order) return note(order);
      // Some never pay.
      if (chance.is(0.02)) return;
      attempts += 1;
      const paid = await payOrder(shopping, purchase, order);
      note(paid);
      let status = paid.kind === 'asked' ? 'pending' : 'failed';
      for (let look = 0; look < 3 && status === 'pending' && paid.kind === 'asked'; look += 1) {
        await new Promise((done) => setTimeout(done, 700));
        status = (await lookAt(shopping, purchase, paid.reference)) ?? status;
      }
      if (status === 'completed' && chance.is(0.4)) {
        return say(`customers: ${await thinkAgain(town, purchase, order, chance)}`);
      }
      if (status === 'failed' && single) {
        return say(`customers: ${await buyWhatWasKept(town, shopping, purchase, order, index)}`);
      }
      // Whoever is told that it failed may try with another phone.
      if (status === 'failed' && chance.is(0.7)) {
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
    await town.desk.finish(300_000);
    const { tookMs, broken } = await town.comeToRest(600_000, 10_000);
    const [figures] = await town.query(
      `select count(*)::integer as attempts,
              count(*) filter (where status = 'completed')::integer as completed,
              count(*) filter (where status = 'failed')::integer as failed,
              count(*) filter (where status = 'review')::integer as review,
              count(*) filter (where status in ('initiating', 'processing', 'unresolved'))::integer as open,
              count(*) filter (where needs_refund)::integer as "to refund",
              count(*) filter (where status = 'completed' and receipt is null)::integer as "without receipt",
              (select count(*)::integer from public.payment_messages) as messages
       from public.payments`,
    );
    const page = await town.ledger();
    return {
      name: 'soak',
      figures: {
        'orders placed': next,
        ...figures,
        ...(await recognisedBy(town)),
        ...(await refundFigures(town)),
        'prompts in the ledger': page.prompts.length,
        'transactions in the ledger': page.transactions.length,
        ...counts,
        ...Object.fromEntries([...words].sort()),
        'load, seconds': Math.round(loadMs / 1000),
        'at rest after, seconds': Math.round(tookMs / 1000),
      },
      broken,
      durationMs: performance.now() - startedAt,
    };
  } finally {
    await town.close();
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
