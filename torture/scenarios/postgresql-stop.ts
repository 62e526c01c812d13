// PostgreSQL stopped in immediate mode again and again while customers pay.

import { startCustomerTraffic } from '../actors/customer-traffic.ts';
import { countsBySource, openSimulation, refundFigures } from '../environment/simulation.ts';
import type { Violation } from '../money-invariants.ts';
import type { Outcome } from '../report.ts';
import { seededRandom } from '../seeded-random.ts';
import { recognitionDelays } from './kill.ts';

export interface PostgresStop {
  seed: number;
  stops: number;
  logs: string;
}

const STOPS_PER_ROUND = 10;
const REST_WITHIN_MS = 30_000;
/** The shop pulls M-PESA's statement every half hour; here after its queries of open payments. */
const PULL_AFTER_MS = 12_000;

/** Runs the scenario. */
export async function stopPostgresql({ seed, stops, logs }: PostgresStop): Promise<Outcome> {
  const random = seededRandom(seed, 'postgres-stop');
  const startedAt = performance.now();
  // With the default settings: commits are synced to disk.
  const simulation = await openSimulation(logs, {
    decisionDelayMs: 200,
    postgresql: {},
    seed,
    singleUnits: 4 * stops,
  });
  try {
    const violations: Violation[] = [];
    const recoveries: number[] = [];
    let slowestRestMs = 0;
    let customers = 0;
    for (let done = 0; done < stops; ) {
      const life = startCustomerTraffic(simulation, seed, 6, customers);
      for (let turn = 0; turn < STOPS_PER_ROUND && done < stops; turn += 1) {
        await new Promise((wake) => setTimeout(wake, 500 + random.below(1_500)));
        await simulation.cluster.stopImmediately();
        await new Promise((wake) => setTimeout(wake, random.is(0.2) ? 3_000 : random.below(400)));
        await simulation.cluster.restart();
        const restartedAt = performance.now();
        await everyShopIsReady(simulation.shops.map(({ port }) => port));
        recoveries.push(performance.now() - restartedAt);
        done += 1;
        violations.push(...(await simulation.violations(false)));
        if (violations.length > 0) break;
      }
      await life.end();
      customers += life.counts().customers ?? 0;
      const rest = await simulation.waitForRest(REST_WITHIN_MS, PULL_AFTER_MS);
      slowestRestMs = Math.max(slowestRestMs, rest.tookMs);
      violations.push(...rest.violations);
      if (violations.length > 0) break;
    }
    const ended = simulation.shops.filter((shop) => !shop.isUp()).map(({ name }) => name);
    violations.push(
      ...ended.map((name) => ({
        invariant: 'the shop survives its database',
        subject: name,
        found: 'it ended',
      })),
    );
    const delays = await recognitionDelays(simulation);
    return {
      name: 'postgres-stop',
      figures: {
        stops: recoveries.length,
        customers,
        ...delays,
        ...(await countsBySource(simulation)),
        ...(await refundFigures(simulation)),
        'slowest recovery of the shop, ms': Math.round(Math.max(...recoveries)),
        'at rest after the last start, longest ms': Math.round(slowestRestMs),
      },
      violations,
      durationMs: performance.now() - startedAt,
    };
  } finally {
    await simulation.close();
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
