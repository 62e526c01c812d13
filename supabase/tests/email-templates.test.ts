// Emails of a hosted project: their links open the shop's page, which asks for a press.
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const folder = fileURLToPath(new URL('../templates/', import.meta.url));
const config = readFileSync(fileURLToPath(new URL('../config.toml', import.meta.url)), 'utf8');
/** Each email of the platform, and the type of its link. */
const types: Record<string, string | null> = {
  confirmation: 'signup',
  email_change: 'email_change',
  invite: 'invite',
  magic_link: 'magiclink',
  reauthentication: null,
  recovery: 'recovery',
};

test('every email of a hosted project has a template', () => {
  expect(readdirSync(folder).sort()).toEqual(Object.keys(types).map((name) => `${name}.html`));
  const configured = [
    ...config.matchAll(/\[auth\.email\.template\.(\w+)\]\nsubject = ".+"\ncontent_path = "(.+)"/g),
  ];
  expect(Object.fromEntries(configured.map(([, name, path]) => [name, path]))).toEqual(
    Object.fromEntries(Object.keys(types).map((name) => [name, `./supabase/templates/${name}.html`])),
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
