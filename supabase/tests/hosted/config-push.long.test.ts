// What the genuine CLI sends to a project with the commands of docs/operating.md, in versions that decide differently what to send.
import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { startManagementApi } from './management-api.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const run = promisify(execFile);

/** Runs a version of the CLI from npm, with a home of its own and in a copy of the folder, because it writes to both. */
async function runCli(version: string, apiUrl: string, given: string[]): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), 'supabase-cli-'));
  try {
    for (const name of ['config.toml', 'templates'])
      await cp(join(root, 'supabase', name), join(home, 'supabase', name), { recursive: true });
    const profile = join(home, 'profile.yaml');
    const host = { api_url: apiUrl, dashboard_url: apiUrl, docs_url: apiUrl, project_host: 'project.test' };
    await writeFile(profile, JSON.stringify({ name: 'stand-in', ...host }));
    const { stdout, stderr } = await run(
      'npx',
      ['--yes', `--package=supabase@${version}`, 'supabase', ...given, '--profile', profile, '--yes'],
      {
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
      },
    );
    return stdout + stderr;
  } finally {
    await rm(home, { recursive: true, force: true });
  }
}

/** The first sends every setting with its own defaults; the others send what `config.toml` declares. */
const versions = ['2.112.0', '2.122.1', '3.1.0'];
const isReachable = await run('npm', ['view', `supabase@${versions.at(-1)}`, 'version']).then(
  () => true,
  () => false,
);
if (!isReachable) console.warn('npm is unreachable: the tests with the Supabase CLI are skipped.');

describe.runIf(isReachable).each(versions)('Supabase CLI %s', (version) => {
  test('lets staff sign in and no one sign up', { timeout: 300_000 }, async () => {
    const api = await startManagementApi();
    const push = () => runCli(version, api.url, ['config', 'push', '--project-ref', 'abcdefghijklmnopqrst']);
    try {
      await push();
      expect(api.auth).toMatchObject({
        disable_signup: true,
        external_anonymous_users_enabled: false,
        external_email_enabled: true,
        jwt_exp: 3600,
        mailer_autoconfirm: false,
        mailer_otp_length: 8,
        mfa_totp_enroll_enabled: true,
        mfa_totp_verify_enabled: true,
        password_min_length: 8,
        rate_limit_otp: 30,
        rate_limit_token_refresh: 150,
        rate_limit_verify: 30,
        refresh_token_rotation_enabled: true,
        security_manual_linking_enabled: false,
        security_update_password_require_reauthentication: true,
        site_url: 'https://shop.example',
        smtp_max_frequency: 60,
        uri_allow_list: '',
      });
      for (const name of [
        'confirmation',
        'email_change',
        'invite',
        'magic_link',
        'reauthentication',
        'recovery',
      ])
        expect(api.auth[`mailer_templates_${name}_content`]).toBe(
          await readFile(join(root, `supabase/templates/${name}.html`), 'utf8'),
        );
      expect(api.tables).toMatchObject({ db_schema: 'public', max_rows: 1000 });
      api.changes.splice(0);
      await push();
      expect(api.changes, 'a second push changes nothing').toEqual([]);
    } finally {
      await api.close();
    }
  });
});
