import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { contentSecurityPolicy } from './content-security-policy.ts';

const hash = (script: string) => `'sha256-${createHash('sha256').update(script).digest('base64')}'`;

test('contains the hash of each inline script, but none for script files', () => {
  const policy = contentSecurityPolicy(
    `<script>one()</script><script type="module" async="">import "/a.js"</script><script src="/x.js"></script>`,
  );
  expect(policy).toContain(`script-src 'self' ${hash('one()')} ${hash('import "/a.js"')};`);
});

test('allows no inline scripts without a hash', () => {
  expect(contentSecurityPolicy('<p>')).toMatch(/script-src 'self';/);
});

test('no other site embeds a page, receives its forms or changes its base URL', () => {
  const policy = contentSecurityPolicy('<p>').split('; ');
  expect(policy).toEqual(
    expect.arrayContaining([
      `frame-ancestors 'none'`,
      `form-action 'self'`,
      `base-uri 'self'`,
      `object-src 'none'`,
    ]),
  );
});

test('allows images from the origin of the services', () => {
  const policy = contentSecurityPolicy('<p>', ['https://abc.supabase.co', 'wss://abc.supabase.co']);
  expect(policy).toContain(`img-src 'self' data: blob: https://abc.supabase.co;`);
});
