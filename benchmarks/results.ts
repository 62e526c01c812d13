// Saved results: `results.json`, and the table of README.md that is written from it.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';

/** A measured row. */
export interface Result {
  row: string;
  /** `PostgreSQL`, `PGlite`, or a setup of several processes. */
  database: string;
  value: number;
  unit: string;
  /** Whether less is better. */
  isCost?: boolean;
  /** Measured in the same minutes; the ratio is above 1 where the shop does better. */
  yardstick?: { name: string; value: number; ratio: number };
  /** Ratio to the same row of another commit in the same minutes: above 1 where the work tree does better. */
  beside?: Record<string, number>;
}

interface SavedResult extends Result {
  commit: string;
  date: string;
  /** Processors, Node.js. */
  machine: string;
  /** A short run, or one on a busy machine. */
  isTrial?: true;
}

const file = join(import.meta.dirname, 'results.json');
const readme = join(import.meta.dirname, 'README.md');
const markers = ['<!-- results -->', '<!-- end of results -->'] as const;

export const readResults = (): SavedResult[] => JSON.parse(readFileSync(file, 'utf8'));

/** Stores measured rows in place of earlier ones of the same name, and writes the table of README.md. */
export function saveResults(measured: readonly Result[], isTrial: boolean): void {
  const git = (...words: string[]) =>
    execFileSync('git', words, { cwd: import.meta.dirname, encoding: 'utf8' }).trim();
  const changed = git('status', '--porcelain', '--', ':/', ':!results.json', ':!README.md')
    ? ' (changed)'
    : '';
  const about = {
    commit: `${git('rev-parse', '--short', 'HEAD')}${changed}`,
    date: new Date().toISOString().slice(0, 10),
    machine: `${availableParallelism()} processors, Node.js ${process.versions.node}`,
    ...(isTrial ? { isTrial: true as const } : {}),
  };
  const saved = new Map(readResults().map((result) => [keyOf(result), result]));
  for (const result of measured) {
    const beside = { ...saved.get(keyOf(result))?.beside, ...result.beside };
    saved.set(keyOf(result), { ...roundNumbers(result), beside: roundNumbers(beside), ...about });
  }
  writeFileSync(file, `${JSON.stringify([...saved.values()], null, 2)}\n`);
  writeFileSync(readme, withTable(readFileSync(readme, 'utf8'), [...saved.values()]));
}

const keyOf = ({ row, database }: Result) => `${database}: ${row}`;

/** Three digits: more of them differ from run to run. */
const roundNumbers = <T>(value: T): T =>
  JSON.parse(
    JSON.stringify(value, (_, each) => (typeof each === 'number' ? Number(each.toPrecision(3)) : each)),
  );

/** README.md with the table of these results. */
export function withTable(text: string, results: readonly SavedResult[]): string {
  const [before = '', rest = ''] = text.split(markers[0]);
  const after = rest.split(markers[1])[1] ?? '';
  return `${before}${markers[0]}\n\n${describeResults(results)}\n\n${markers[1]}${after}`;
}

/** A table in Markdown. */
export function describeResults(results: readonly (Result | SavedResult)[]): string {
  const commits = [...new Set(results.flatMap(({ beside }) => Object.keys(beside ?? {})))];
  const head = ['row', 'database', 'value', 'yardstick', 'ratio', ...commits.map((each) => `beside ${each}`)];
  if (results.some((result) => 'commit' in result)) head.push('measured at');
  const lines = results.map((result) => {
    const { row, database, value, unit, yardstick, beside } = result;
    const cells = [row, database, `${show(value)} ${unit}`];
    cells.push(
      ...(yardstick ? [`${yardstick.name}: ${show(yardstick.value)}`, show(yardstick.ratio)] : ['', '']),
    );
    for (const commit of commits) cells.push(beside?.[commit] === undefined ? '' : show(beside[commit]));
    if ('commit' in result) {
      cells.push(`${result.commit}, ${result.date}${result.isTrial ? ', a trial' : ''}`);
    }
    return cells;
  });
  return [head, head.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** A number with three digits. */
export function show(value: number): string {
  // JSON has neither NaN nor infinity.
  if (!Number.isFinite(value)) return 'not measured';
  const digits = Number(value.toPrecision(3));
  return digits >= 1000 ? digits.toLocaleString('en') : String(digits);
}
