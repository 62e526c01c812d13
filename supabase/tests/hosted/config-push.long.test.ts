// What the genuine CLI sends to a project with the commands of docs/operating.md, in versions that decide differently what to send.
import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { isOnNpm, runCli } from '../supabase-cli.ts';
import { startManagementApi } from './management-api.ts';

/** The first sends every setting with its own defaults; the others send what `config.toml` declares. */
const versions = ['2.112.0', '2.122.1', '3.1.0'];
const isReachable = await isOnNpm(versions.at(-1) ?? '');
if (!isReachable) console.warn('npm is unreachable: the tests with the Supabase CLI are skipped.');

describe.runIf(isReachable).each(versions)('Supabase CLI %s', (version) => {
  test('lets staff sign in and no one sign up', { timeout: 300_000 }, async () => {
    const api = await startManagementApi();
    const urls = {
      api_url: api.url,
      dashboard_url: api.url,
      docs_url: api.url,
      project_host: 'project.test',
    };
    const given = ['config', 'push', '--project-ref', 'abcdefghijklmnopqrst', '--profile', 'profile.yaml'];
    const push = () => runCli(version, given, { name: 'stand-in', ...urls });
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
          await readFile(new URL(`../../templates/${name}.html`, import.meta.url), 'utf8'),
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
