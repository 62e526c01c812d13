// Attacks by one client: floods while the response times of ordinary customers are measured, and access rules for strangers.
import { fork } from 'node:child_process';
import { mkdir, rm } from 'node:fs/promises';
import type { Violation } from '../money-invariants.ts';
import type { Outcome } from '../report.ts';
import { type AbusedShop, startAbusedShop } from './abused-shop.ts';
import type { AttackerMessage } from './attacker.ts';
import { attacks } from './attacks.ts';
import { checkRules } from './rules.ts';
import { measureShoppers, medianOf, type ShopperTimes, slowPercent } from './shopper.ts';
import type { Attack } from './target.ts';

export interface Abuse {
  kind: 'pglite' | 'postgresql';
  logs: string;
  /** Duration of the measurement of an attack. Default: 8,000. */
  attackMs?: number;
  /** Runs only attacks and rules whose names contain this. Default: all. */
  matching?: string;
}

/** Maximum slowdown of shoppers' medians during an attack, and five seconds after it. */
const during = 5;
const afterwards = 2;
const recoveryMs = 5000;

/** Runs all attacks. A violation is a shopper that waits too long, doubled memory or an ended process. */
export async function abuse({ kind, logs, attackMs = 8000, matching = '' }: Abuse): Promise<Outcome> {
  const startedAt = performance.now();
  const figures: Outcome['figures'] = {};
  const violations: Violation[] = [];
  await rm(logs, { recursive: true, force: true });
  await mkdir(logs, { recursive: true });
  const isWanted = ({ name }: { name: string }) => name.includes(matching);
  let shop = await startAbusedShop(kind, logs);
  try {
    await measureShoppers(shop.target.port, shop.target.publishableKey, shop.product, 3000);
    const idle = await shop.residentMegabytes();
    figures['memory after the first shoppers'] = `${Math.round(idle)} MB`;
    for (const attack of attacks.filter(isWanted)) {
      const { name } = attack;
      const { text, problems } = await measureAttack(shop, attack, attackMs, idle);
      figures[name] = text;
      console.log(`${kind} | ${name} | ${text}`);
      for (const found of problems)
        violations.push({ invariant: 'an attack does not slow other clients down', subject: name, found });
      if (!shop.isAlive()) {
        await shop.close();
        shop = await startAbusedShop(kind, logs);
      }
    }
    for (const { name, found } of await checkRules(shop, isWanted)) {
      figures[name] = found ?? 'held';
      console.log(`${kind} | ${name} | ${found ?? 'held'}`);
      if (found) violations.push({ invariant: 'a stranger cannot harm a customer', subject: name, found });
    }
  } finally {
    await shop.close();
  }
  return { name: `abuse ${kind}`, figures, violations, durationMs: performance.now() - startedAt };
}

async function measureAttack(
  shop: AbusedShop,
  { name, floodsConnections }: Attack,
  attackMs: number,
  idle: number,
): Promise<{ text: string; problems: string[] }> {
  const measure = (durationMs: number) =>
    measureShoppers(shop.target.port, shop.target.publishableKey, shop.product, durationMs);
  const processorPercent = async <T>(run: () => Promise<T>): Promise<[T, number]> => {
    const [startedAt, used] = [performance.now(), await shop.processorSeconds()];
    const result = await run();
    const seconds = (performance.now() - startedAt) / 1000;
    return [result, Math.round((100 * ((await shop.processorSeconds()) - used)) / seconds)];
  };
  const [before, processorBefore] = await processorPercent(() => measure(4000));
  let peak = 0;
  const watch = setInterval(async () => {
    peak = Math.max(peak, await shop.residentMegabytes());
  }, 200);
  const attacker = startAttacker(name, shop);
  await pause(1000);
  const [attacked, processor] = await processorPercent(() => measure(attackMs));
  const statuses = await attacker.stop();
  await pause(recoveryMs);
  clearInterval(watch);
  const after = await measure(4000);
  const kinds = ['page', 'search', 'order'] as const;
  const ratio = (times: ShopperTimes, kind: (typeof kinds)[number]) =>
    medianOf(times[kind]) / medianOf(before[kind]);
  const problems = kinds.flatMap((kind) => [
    ...(floodsConnections || ratio(attacked, kind) < during
      ? []
      : [`${kind} x${ratio(attacked, kind).toFixed(1)} during`]),
    ...(ratio(after, kind) < afterwards ? [] : [`${kind} x${ratio(after, kind).toFixed(1)} after`]),
  ]);
  const slow = slowPercent(attacked);
  if (slow > slowPercent(before)) problems.push(`${slow.toFixed(1)} % of requests over a second`);
  if (peak > 2 * idle) problems.push(`${Math.round(peak)} MB of memory, ${Math.round(idle)} MB idle`);
  if (!shop.isAlive()) problems.push('the process ended');
  for (const [when, { failures }] of Object.entries({ before, during: attacked, after })) {
    if (failures.length > 0)
      problems.push(`${failures.length} failed ${when}: ${failures.slice(0, 3).join(', ')}`);
  }
  const cell = (times: ShopperTimes) => kinds.map((kind) => `x${ratio(times, kind).toFixed(1)}`).join(' ');
  const medians = kinds.map((kind) => `${Math.round(medianOf(attacked[kind]))} ms`).join(' ');
  const text = `page, search, order ${cell(attacked)} (${medians}; after ${cell(after)}); ${slow.toFixed(1)} % over a second (before ${slowPercent(before).toFixed(1)} %); processor ${processor} % (before ${processorBefore} %); peak ${Math.round(peak)} MB; responses to the attacker ${JSON.stringify(statuses)}`;
  return { text, problems };
}

function startAttacker(name: string, { target }: AbusedShop): { stop(): Promise<Record<string, number>> } {
  const child = fork(new URL('attacker.ts', import.meta.url), { execArgv: ['--import', 'tsx'] });
  const send = (message: AttackerMessage) => child.send(message);
  send({ start: name, target });
  const result = new Promise<Record<string, number>>((resolve) => {
    child.once('message', (statuses) => resolve(statuses as Record<string, number>));
    child.once('exit', () => resolve({}));
  });
  return {
    async stop() {
      if (child.connected) send({ stop: true });
      const killTimer = setTimeout(() => child.kill('SIGKILL'), 10_000);
      const statuses = await result;
      clearTimeout(killTimer);
      return statuses;
    },
  };
}

const pause = (ms: number) => new Promise((done) => setTimeout(done, ms));
