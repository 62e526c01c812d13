// Which version this process runs: what the build wrote into its release.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { RunningVersion } from '../../domain/running-version.ts';

/** @param folder of the release */
export async function readRunningVersion(
  folder: string,
  release: string | undefined,
): Promise<RunningVersion> {
  const written = await readFile(join(folder, 'version.json'), 'utf8')
    .then((text) => JSON.parse(text) as Partial<RunningVersion>)
    // Not in development, nor in a release of an earlier version.
    .catch(() => null);
  return {
    release: release ?? null,
    changedAt: written?.changedAt ?? null,
    commit: written?.commit ?? null,
    builtAt: written?.builtAt ?? null,
    startedAt: new Date(Date.now() - process.uptime() * 1000).toISOString(),
  };
}
