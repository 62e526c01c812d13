// PostgreSQL stopped in immediate mode again and again while customers pay.
import { chanceOf } from './chance.ts';
import { recognitionDelays } from './kill.ts';
import type { BrokenPromise } from './money-invariants.ts';
import type { Outcome } from './report.ts';
import { openTown, recognisedBy, refundFigures } from './town.ts';
import { startTownLife } from './town-life.ts';

export interface PostgresStop {
  seed: number;
  stops: number;
  logs: string;
}

const STOPS_PER_LOOK = 10;
const REST_WITHIN_MS = 30_000;
/** The shop pulls M-PESA's statement every half hour; here it does so once it has asked about what is open. */
const PULL_AFTER_MS = 12_000;

/** Runs it and gives what was found. */
export async function stopPostgresql({ seed, stops, logs }: PostgresStop): Promise<Outcome> {
  const chance = chanceOf(seed, 'postgres-stop');
  const startedAt = performance.now();
  // As in real life: what is committed is on the disk.
  const town = await openTown(logs, { decisionDelayMs: 200, postgresql: {}, seed, singles: 4 * stops });
  try {
    const broken: BrokenPromise[] = [];
    const recoveries: number[] = [];
    let slowestRestMs = 0;
    let customers = 0;
    for (let done = 0; done < stops; ) {
      const life = startTownLife(town, seed, 6, customers);
      for (let turn = 0; turn < STOPS_PER_LOOK && done < stops; turn += 1) {
        await new Promise((wake) => setTimeout(wake, 500 + chance.below(1_500)));
        await town.cluster.stopImmediately();
        await new Promise((wake) => setTimeout(wake, chance.is(0.2) ? 3_000 : chance.below(400)));
        await town.cluster.restart();
        const restartedAt = performance.now();
        await everyShopIsReady(town.shops.map(({ port }) => port));
        recoveries.push(performance.now() - restartedAt);
        done += 1;
        broken.push(...(await town.broken(false)));
        if (broken.length > 0) break;
      }
      await life.end();
      customers += life.counts().customers ?? 0;
      const rest = await town.comeToRest(REST_WITHIN_MS, PULL_AFTER_MS);
      slowestRestMs = Math.max(slowestRestMs, rest.tookMs);
      broken.push(...rest.broken);
      if (broken.length > 0) break;
    }
    const ended = town.shops.filter((shop) => !shop.isUp()).map(({ name }) => name);
    broken.push(
      ...ended.map((name) => ({
        promise: 'the shop outlives its database',
        subject: name,
        found: 'it ended',
      })),
    );
    const delays = await recognitionDelays(town);
    return {
      name: 'postgres-stop',
      figures: {
        stops: recoveries.length,
        customers,
        ...delays,
        ...(await recognisedBy(town)),
        ...(await refundFigures(town)),
        'slowest recovery of the shop, ms': Math.round(Math.max(...recoveries)),
        'at rest after the last start, longest ms': Math.round(slowestRestMs),
      },
      broken,
      durationMs: performance.now() - startedAt,
    };
  } finally {
    await town.close();
  }
}

async function everyShopIsReady(ports: number[]): Promise<void> {
  const until = Date.now() + 30_000;
  for (const port of ports) {
    while (
      !(await fetch(`http://127.0.0.1:${port}/readyz`).then(
        ({ ok }) => ok,
        () => false,
      ))
    ) {
      if (Date.now() > until) throw new Error('the shop did not come back within 30 seconds');
      await new Promise((done) => setTimeout(done, 25));
    }
  }
}
