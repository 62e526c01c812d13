// Report of a run, as Markdown and JSON.
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Violation } from './money-invariants.ts';

/** Result of one scenario. */
export interface Outcome {
  name: string;
  figures: Record<string, number | string>;
  violations: Violation[];
  durationMs: number;
}

export interface Report {
  seed: number;
  startedAt: string;
  outcomes: Outcome[];
}

/** Writes `report.md` and `report.json`. */
export async function writeReport(folder: string, report: Report): Promise<void> {
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'report.json'), `${JSON.stringify(report, null, 2)}\n`);
  await writeFile(join(folder, 'report.md'), describe(report));
}

/** The report as Markdown. */
export function describe({ seed, startedAt, outcomes }: Report): string {
  const parts = outcomes.map(({ name, figures, violations, durationMs }) =>
    [
      `## ${name}: ${violations.length === 0 ? 'every invariant held' : `${violations.length} violations`} (${Math.round(durationMs / 1000)} s)`,
      '| figure | |\n|---|---|',
      ...Object.entries(figures).map(([figure, value]) => `| ${figure} | ${value} |`),
      ...(violations.length > 0 ? ['\nViolations:\n'] : []),
      ...violations.slice(0, 50).map((one) => `- ${one.invariant}: ${one.subject}: ${one.found}`),
    ].join('\n'),
  );
  return `# Torture of ${startedAt}, seed ${seed}\n\n${parts.join('\n\n')}\n`;
}
