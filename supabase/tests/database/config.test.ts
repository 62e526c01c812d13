// The settings that the CLI sends to a hosted project, and the emails of its auth service. What the genuine CLI sends:
// `hosted/config-push.test.ts`.
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parse } from 'smol-toml';
import { expect, test } from 'vitest';

const folder = fileURLToPath(new URL('../../templates/', import.meta.url));
const config = parse(readFileSync(fileURLToPath(new URL('../../config.toml', import.meta.url)), 'utf8'));
/** Each email of the platform, and the type of its link. */
const types: Record<string, string | null> = {
  confirmation: 'signup',
  email_change: 'email_change',
  invite: 'invite',
  magic_link: 'magiclink',
  reauthentication: null,
  recovery: 'recovery',
};

test('closes sign-up and leaves the email provider on', () => {
  expect(config).toMatchObject({
    auth: {
      enable_signup: false,
      enable_anonymous_sign_ins: false,
      mfa: { totp: { enroll_enabled: true, verify_enabled: true } },
      site_url: 'env(PUBLIC_URL)',
    },
  });
  // Both names of the switch turn off the provider, with which staff sign in.
  expect(config).not.toHaveProperty('auth.email.enable_signup');
  expect(config).not.toHaveProperty('auth.email.enabled');
  // A free plan refuses all auth settings when these are among them.
  expect(config).not.toHaveProperty('auth.sessions');
});

test('lets M-PESA call the function without a token', () => {
  expect(config).toHaveProperty('functions.mobile-money.verify_jwt', false);
});

test('every email of a hosted project has a template', () => {
  expect(readdirSync(folder).sort()).toEqual(Object.keys(types).map((name) => `${name}.html`));
  expect(config).toHaveProperty(
    'auth.email.template',
    Object.fromEntries(
      Object.keys(types).map((name) => [
        name,
        { subject: expect.any(String), content_path: `./supabase/templates/${name}.html` },
      ]),
    ),
  );
});

test.each(Object.entries(types))('%s has no link that opening uses up', (name, type) => {
  const html = readFileSync(`${folder}${name}.html`, 'utf8');
  expect(html).not.toContain('ConfirmationURL');
  const links = [...html.matchAll(/href="([^"]*)"/g)].map(([, link]) => link);
  expect(links).toEqual(
    type === null ? [] : [`{{ .SiteURL }}/admin/confirm?token_hash={{ .TokenHash }}&amp;type=${type}`],
  );
  // The recipient did not ask for an invitation, so no page waits for its code.
  expect(html.includes('{{ .Token }}')).toBe(name !== 'invite');
});
