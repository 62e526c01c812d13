// The genuine Supabase CLI, from npm.
import { execFile } from 'node:child_process';
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const supabase = fileURLToPath(new URL('../', import.meta.url));
const run = promisify(execFile);

/** Whether a version of the CLI can be installed. */
export function isOnNpm(version: string): Promise<boolean> {
  return run('npm', ['view', `supabase@${version}`, 'version']).then(
    () => true,
    () => false,
  );
}

/**
 * Runs a version of the CLI with a home of its own and in a copy of the folder, because it writes to both.
 * @param profile content of `profile.yaml` in the current folder
 */
export async function runCli(version: string, given: readonly string[], profile: object = {}): Promise<void> {
  const home = await mkdtemp(join(tmpdir(), 'supabase-cli-'));
  try {
    for (const name of ['config.toml', 'templates', 'migrations'])
      await cp(join(supabase, name), join(home, 'supabase', name), { recursive: true });
    await writeFile(join(home, 'profile.yaml'), JSON.stringify(profile));
    await run('npx', ['--yes', `--package=supabase@${version}`, 'supabase', ...given, '--yes'], {
      cwd: home,
      maxBuffer: 16 * 1024 * 1024,
      env: {
        ...process.env,
        HOME: home,
        npm_config_cache: process.env.npm_config_cache ?? join(homedir(), '.npm'),
        PUBLIC_URL: 'https://shop.example',
        SUPABASE_ACCESS_TOKEN: `sbp_${'0'.repeat(40)}`,
        SUPABASE_TELEMETRY_DISABLED: '1',
      },
    });
  } finally {
    await rm(home, { recursive: true, force: true });
  }
}
