// `npm run torture`: long tests that no money is lost and that attackers cannot stop the shop. Options: --seed N,
// --only soak|kill|postgres-stop|pooled|rolling|trackers|abuse|abuse-postgresql, --payments N, --kills N, --stops N, --orders N,
// --trackers N, --updates N (per second), --matching TEXT (of abuse).
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { abuse } from './abuse/abuse.ts';
import { root } from './environment/shop-process.ts';
import { describe, type Outcome, type Report, writeReport } from './report.ts';
import { kill } from './scenarios/kill.ts';
import { pooled } from './scenarios/pooled.ts';
import { stopPostgresql } from './scenarios/postgresql-stop.ts';
import { rolling } from './scenarios/rolling.ts';
import { soak } from './scenarios/soak.ts';
import { trackers } from './scenarios/trackers.ts';

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    only: { type: 'string' },
    payments: { type: 'string', default: '10000' },
    kills: { type: 'string', default: '200' },
    stops: { type: 'string', default: '50' },
    orders: { type: 'string', default: '300' },
    trackers: { type: 'string', default: '2000' },
    updates: { type: 'string', default: '100' },
    matching: { type: 'string', default: '' },
  },
});
const seed = Number(values.seed);

const built = spawnSync(process.execPath, [join(root, 'scripts/build.mjs')], { stdio: 'inherit' });
if (built.status !== 0) process.exit(built.status ?? 1);

const folder = join(root, 'build/torture');
const parts: Record<string, () => Promise<Outcome>> = {
  soak: () => soak({ seed, payments: Number(values.payments), logs: join(folder, 'soak') }),
  kill: () => kill({ seed, kills: Number(values.kills), logs: join(folder, 'kill') }),
  'postgres-stop': () =>
    stopPostgresql({ seed, stops: Number(values.stops), logs: join(folder, 'postgres-stop') }),
  pooled: () => pooled({ orders: Number(values.orders), logs: join(folder, 'pooled') }),
  rolling: () => rolling({ orders: Number(values.orders), logs: join(folder, 'rolling') }),
  trackers: () =>
    trackers({
      trackers: Number(values.trackers),
      updatesPerSecond: Number(values.updates),
      p95LimitMs: 2_000,
      logs: join(folder, 'trackers'),
    }),
  abuse: () => abuse({ kind: 'pglite', matching: values.matching, logs: join(folder, 'abuse') }),
  'abuse-postgresql': () =>
    abuse({ kind: 'postgresql', matching: values.matching, logs: join(folder, 'abuse-postgresql') }),
};
const wanted = values.only === undefined ? Object.keys(parts) : [values.only];
const report: Report = { seed, startedAt: new Date().toISOString(), outcomes: [] };
for (const name of wanted) {
  const part = parts[name];
  if (!part) {
    console.error(`There is no part "${name}": ${Object.keys(parts).join(', ')}.`);
    process.exit(2);
  }
  console.log(`${name}, seed ${seed} …`);
  report.outcomes.push(await part());
  // Written after each part, so that an aborted run leaves a report.
  await writeReport(folder, report);
}
console.log(`\n${describe(report)}\nKept in ${join(folder, 'report.md')} and report.json.`);
process.exit(report.outcomes.some(({ violations }) => violations.length > 0) ? 1 : 0);
