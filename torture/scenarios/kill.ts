// Kills shop processes (SIGKILL) around commits and messages to and from M-PESA.

import { cashFigures } from '../actors/cash-customer.ts';
import { startCustomerTraffic } from '../actors/customer-traffic.ts';
import { deliveryFigures } from '../actors/delivery-customer.ts';
import type { ShopProcess } from '../environment/shop-process.ts';
import {
  countsBySource,
  type Faults,
  openSimulation,
  refundFigures,
  type Simulation,
} from '../environment/simulation.ts';
import type { Violation } from '../money-invariants.ts';
import type { Outcome } from '../report.ts';
import { type SeededRandom, seededRandom } from '../seeded-random.ts';

export interface Kill {
  seed: number;
  kills: number;
  logs: string;
}

/** Moments at which a process can be killed. */
const crashPoints = [
  'commit before',
  'commit answered',
  'commit forwarded',
  'token before',
  'token answered',
  'push before',
  'push answered',
  'query before',
  'query answered',
  'reversal before',
  'reversal answered',
  'status before',
  'status answered',
  'callback sent',
  'any time',
] as const;
type CrashPoint = (typeof crashPoints)[number];
const shares: Record<CrashPoint, number> = {
  'commit before': 20,
  'commit answered': 20,
  'commit forwarded': 12,
  'token before': 1,
  'token answered': 1,
  'push before': 10,
  'push answered': 12,
  'query before': 2,
  'query answered': 3,
  'reversal before': 6,
  'reversal answered': 10,
  'status before': 1,
  'status answered': 1,
  'callback sent': 10,
  'any time': 5,
};
const weightedPoints = crashPoints.flatMap((point) => Array.from({ length: shares[point] }, () => point));

/** After this time the process is killed even if no such moment occurred. */
const LONGEST_WAIT_MS = 4_000;
const KILLS_PER_ROUND = 20;
const REST_WITHIN_MS = 30_000;

/** The shop pulls M-PESA's statement every half hour; here after its queries of open payments. */
const PULL_AFTER_MS = 12_000;

interface ScheduledKill {
  shop: number;
  point: CrashPoint;
  /** Moments to skip before the one that kills. */
  skipped: number;
  /** Delay after that moment. */
  afterMs: number;
  /** Kills the process, or both where the message does not identify one. */
  kill(isBoth: boolean): void;
}

/** Runs the scenario. */
export async function kill({ seed, kills, logs }: Kill): Promise<Outcome> {
  const random = seededRandom(seed, 'kill');
  let scheduled: ScheduledKill | null = null;
  /** Whether the process was killed, so that the message is lost. */
  const passes = (shop: number | null, point: CrashPoint): boolean => {
    if (!scheduled || scheduled.point !== point || (shop !== null && scheduled.shop !== shop)) return false;
    scheduled.skipped -= 1;
    if (scheduled.skipped >= 0) return false;
    const { afterMs, kill } = scheduled;
    scheduled = null;
    if (afterMs > 0) setTimeout(kill, afterMs, shop === null);
    else kill(shop === null);
    return afterMs === 0;
  };
  const faults: Faults = {
    commit: passes,
    daraja(shop, { call, moment }) {
      if (call === 'other' || !passes(shop, `${call} ${moment}`)) return 'forward';
      return 'drop';
    },
    callbackSent: (shop) => passes(shop, 'callback sent'),
  };

  const startedAt = performance.now();
  const simulation = await openSimulation(logs, { faults, decisionDelayMs: 200, seed, singleUnits: kills });
  try {
    const died: Record<string, number> = {};
    const violations: Violation[] = [];
    const starts: number[] = [];
    let slowestRestMs = 0;
    let customers = 0;
    const restarts = new Map<ShopProcess, Promise<void>>();
    const restartDeadProcesses = () => {
      for (const shop of simulation.shops) {
        if (shop.isUp() || restarts.has(shop)) continue;
        const start = shop.start().then((tookMs) => {
          starts.push(tookMs);
          restarts.delete(shop);
        });
        restarts.set(shop, start);
      }
    };
    for (let done = 0; done < kills; ) {
      const life = startCustomerTraffic(simulation, seed, 6, customers);
      for (let turn = 0; turn < KILLS_PER_ROUND && done < kills; turn += 1) {
        // A process may be killed while the other one starts, so that none is up.
        while (!simulation.shops.some((shop) => shop.isUp())) await Promise.race(restarts.values());
        const point = await killOnce(simulation, random, (set) => {
          scheduled = set;
        });
        scheduled = null;
        died[point] = (died[point] ?? 0) + 1;
        done += 1;
        restartDeadProcesses();
        violations.push(...(await simulation.violations(false)));
        if (violations.length > 0) break;
      }
      await Promise.all(restarts.values());
      await life.end();
      customers += life.counts().customers ?? 0;
      const rest = await simulation.waitForRest(REST_WITHIN_MS, PULL_AFTER_MS);
      slowestRestMs = Math.max(slowestRestMs, rest.tookMs);
      violations.push(...rest.violations);
      if (violations.length > 0) break;
    }
    const delays = await recognitionDelays(simulation);
    return {
      name: 'kill',
      figures: {
        kills: Object.values(died).reduce((sum, count) => sum + count, 0),
        ...Object.fromEntries(crashPoints.map((point) => [`killed at: ${point}`, died[point] ?? 0])),
        'killed without such a moment': died.late ?? 0,
        customers,
        ...delays,
        ...(await countsBySource(simulation)),
        ...(await refundFigures(simulation)),
        ...(await deliveryFigures(simulation)),
        ...(await cashFigures(simulation)),
        'slowest start, ms': Math.round(Math.max(...starts)),
        'at rest after the last start, longest ms': Math.round(slowestRestMs),
      },
      violations,
      durationMs: performance.now() - startedAt,
    };
  } finally {
    await simulation.close();
  }
}

/** Kills one process at a random point. Returns the point, or `late` when it did not occur in time. */
async function killOnce(
  simulation: Simulation,
  random: SeededRandom,
  schedule: (scheduled: ScheduledKill) => void,
): Promise<CrashPoint | 'late'> {
  const drawn = random.below(2);
  const shop = simulation.shops[drawn]?.isUp() ? drawn : 1 - drawn;
  const victim = simulation.shops[shop];
  const point = random.pick(weightedPoints);
  // These are rare.
  const skipped = /token|query|reversal|status/.test(point) ? 0 : random.below(6);
  const afterMs = point === 'callback sent' ? random.below(25) : random.is(0.25) ? random.below(30) : 0;
  if (point === 'any time') {
    await new Promise((done) => setTimeout(done, random.below(800)));
    victim?.kill();
    return point;
  }
  return new Promise((done) => {
    const late = setTimeout(() => {
      victim?.kill();
      done('late');
    }, LONGEST_WAIT_MS);
    schedule({
      shop,
      point,
      skipped,
      afterMs,
      kill(isBoth) {
        clearTimeout(late);
        for (const one of isBoth ? simulation.shops : [victim]) one?.kill();
        done(point);
      },
    });
  });
}

/** Delay between the transfer at M-PESA and its record in the database. */
export async function recognitionDelays(simulation: Simulation): Promise<Record<string, number>> {
  const { transactions } = await simulation.ledger();
  const movedAt = new Map(transactions.map(({ receipt, at }) => [receipt, at]));
  const promptMovedAt = new Map(transactions.map(({ checkoutRequestId, at }) => [checkoutRequestId, at]));
  const rows = await simulation.query(
    `select receipt, checkout_request_id, extract(epoch from completed_at) * 1000 as at
     from public.payments where status = 'completed'`,
  );
  const delays = rows
    .map(
      ({ receipt, checkout_request_id, at }) =>
        Number(at) - (movedAt.get(receipt) ?? promptMovedAt.get(checkout_request_id) ?? Number.NaN),
    )
    .filter((delay) => !Number.isNaN(delay))
    .sort((a, b) => a - b);
  return {
    'payments completed': rows.length,
    'recognised after, median ms': Math.round(delays[Math.floor(delays.length / 2)] ?? 0),
    'recognised after, longest ms': Math.round(delays.at(-1) ?? 0),
  };
}
