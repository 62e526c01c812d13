// A process of the shop killed (SIGKILL) again and again, around every commit and every word with M-PESA.
import { type Chance, chanceOf } from './chance.ts';
import type { BrokenPromise } from './money-invariants.ts';
import type { Outcome } from './report.ts';
import type { ShopProcess } from './shop-process.ts';
import { openTown, type Roads, recognisedBy, refundFigures, type Town } from './town.ts';
import { startTownLife } from './town-life.ts';

export interface Kill {
  seed: number;
  kills: number;
  logs: string;
}

/** Where a process can die: at the n-th such moment from now on. */
const places = [
  'commit before',
  'commit answered',
  'commit told',
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
  'notice sent',
  'any time',
] as const;
type Place = (typeof places)[number];
const shares: Record<Place, number> = {
  'commit before': 20,
  'commit answered': 20,
  'commit told': 12,
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
  'notice sent': 10,
  'any time': 5,
};
const drawnPlaces = places.flatMap((place) => Array.from({ length: shares[place] }, () => place));

/** If the moment does not come within this time, the process is killed all the same. */
const LONGEST_WAIT_MS = 4_000;
const KILLS_PER_LOOK = 20;
const REST_WITHIN_MS = 30_000;

/** The shop pulls M-PESA's statement every half hour; here it does so once it has asked about what is open. */
const PULL_AFTER_MS = 12_000;

interface Trap {
  shop: number;
  place: Place;
  /** How many such moments pass before the one that kills. */
  passing: number;
  /** How long after that moment. */
  afterMs: number;
  /** Kills the process, or both where nobody can tell which one it was. */
  spring(isBoth: boolean): void;
}

/** Runs it and gives what was found. */
export async function kill({ seed, kills, logs }: Kill): Promise<Outcome> {
  const chance = chanceOf(seed, 'kill');
  let trap: Trap | null = null;
  /** Whether the process died of it, so that what was on its way is lost. */
  const passes = (shop: number | null, place: Place): boolean => {
    if (!trap || trap.place !== place || (shop !== null && trap.shop !== shop)) return false;
    trap.passing -= 1;
    if (trap.passing >= 0) return false;
    const { afterMs, spring } = trap;
    trap = null;
    if (afterMs > 0) setTimeout(spring, afterMs, shop === null);
    else spring(shop === null);
    return afterMs === 0;
  };
  const roads: Roads = {
    commit: passes,
    daraja(shop, { call, moment }) {
      if (call === 'other' || !passes(shop, `${call} ${moment}`)) return 'on';
      return 'lost';
    },
    noticeSent: (shop) => passes(shop, 'notice sent'),
  };

  const startedAt = performance.now();
  const town = await openTown(logs, { roads, decisionDelayMs: 200, seed, singles: kills });
  try {
    const died: Record<string, number> = {};
    const broken: BrokenPromise[] = [];
    const starts: number[] = [];
    let slowestRestMs = 0;
    let customers = 0;
    const restarts = new Map<ShopProcess, Promise<void>>();
    const restartTheDead = () => {
      for (const shop of town.shops) {
        if (shop.isUp() || restarts.has(shop)) continue;
        const start = shop.start().then((tookMs) => {
          starts.push(tookMs);
          restarts.delete(shop);
        });
        restarts.set(shop, start);
      }
    };
    for (let done = 0; done < kills; ) {
      const life = startTownLife(town, seed, 6, customers);
      for (let turn = 0; turn < KILLS_PER_LOOK && done < kills; turn += 1) {
        // One is killed while the other is still on its way back: now and then nobody is there.
        while (!town.shops.some((shop) => shop.isUp())) await Promise.race(restarts.values());
        const place = await killOnce(town, chance, (set) => {
          trap = set;
        });
        trap = null;
        died[place] = (died[place] ?? 0) + 1;
        done += 1;
        restartTheDead();
        broken.push(...(await town.broken(false)));
        if (broken.length > 0) break;
      }
      await Promise.all(restarts.values());
      await life.end();
      customers += life.counts().customers ?? 0;
      const rest = await town.comeToRest(REST_WITHIN_MS, PULL_AFTER_MS);
      slowestRestMs = Math.max(slowestRestMs, rest.tookMs);
      broken.push(...rest.broken);
      if (broken.length > 0) break;
    }
    const delays = await recognitionDelays(town);
    return {
      name: 'kill',
      figures: {
        kills: Object.values(died).reduce((sum, count) => sum + count, 0),
        ...Object.fromEntries(places.map((place) => [`died at: ${place}`, died[place] ?? 0])),
        'died late, for want of such a moment': died.late ?? 0,
        customers,
        ...delays,
        ...(await recognisedBy(town)),
        ...(await refundFigures(town)),
        'slowest start, ms': Math.round(Math.max(...starts)),
        'at rest after the last start, longest ms': Math.round(slowestRestMs),
      },
      broken,
      durationMs: performance.now() - startedAt,
    };
  } finally {
    await town.close();
  }
}

/** Kills one process at a drawn place; gives the place, or `late` when its moment did not come. */
async function killOnce(town: Town, chance: Chance, setTrap: (trap: Trap) => void): Promise<Place | 'late'> {
  const drawn = chance.below(2);
  const shop = town.shops[drawn]?.isUp() ? drawn : 1 - drawn;
  const victim = town.shops[shop];
  const place = chance.pick(drawnPlaces);
  // These are rare.
  const passing = /token|query|reversal|status/.test(place) ? 0 : chance.below(6);
  const afterMs = place === 'notice sent' ? chance.below(25) : chance.is(0.25) ? chance.below(30) : 0;
  if (place === 'any time') {
    await new Promise((done) => setTimeout(done, chance.below(800)));
    victim?.kill();
    return place;
  }
  return new Promise((done) => {
    const late = setTimeout(() => {
      victim?.kill();
      done('late');
    }, LONGEST_WAIT_MS);
    setTrap({
      shop,
      place,
      passing,
      afterMs,
      spring(isBoth) {
        clearTimeout(late);
        for (const one of isBoth ? town.shops : [victim]) one?.kill();
        done(place);
      },
    });
  });
}

/** How long after the money moved the books knew of it, whatever was broken meanwhile. */
export async function recognitionDelays(town: Town): Promise<Record<string, number>> {
  const { transactions } = await town.ledger();
  const movedAt = new Map(transactions.map(({ receipt, at }) => [receipt, at]));
  const promptMovedAt = new Map(transactions.map(({ checkoutRequestId, at }) => [checkoutRequestId, at]));
  const rows = await town.query(
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
