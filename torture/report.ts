// What a run has found: for people as Markdown, for programs as JSON.
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { BrokenPromise } from './money-invariants.ts';

/** What one scenario has found. */
export interface Outcome {
  name: string;
  figures: Record<string, number | string>;
  broken: BrokenPromise[];
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
  const parts = outcomes.map(({ name, figures, broken, durationMs }) =>
    [
      `## ${name}: ${broken.length === 0 ? 'every promise held' : `${broken.length} broken promises`} (${Math.round(durationMs / 1000)} s)`,
      '| figure | |\n|---|---|',
      ...Object.entries(figures).map(([figure, value]) => `| ${figure} | ${value} |`),
      ...(broken.length > 0 ? ['\nBroken:\n'] : []),
      ...broken.slice(0, 50).map((one) => `- ${one.promise}: ${one.subject}: ${one.found}`),
    ].join('\n'),
  );
  return `# Torture of ${startedAt}, seed ${seed}\n\n${parts.join('\n\n')}\n`;
}
