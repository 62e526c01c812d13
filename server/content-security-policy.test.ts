import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { contentSecurityPolicy } from './content-security-policy.ts';

const hash = (script: string) => `'sha256-${createHash('sha256').update(script).digest('base64')}'`;

test('each inline script is named by its hash, scripts from a file are not', () => {
  const policy = contentSecurityPolicy(
    `<script>one()</script><script type="module" async="">import "/a.js"</script><script src="/x.js"></script>`,
  );
  expect(policy).toContain(`script-src 'self' ${hash('one()')} ${hash('import "/a.js"')};`);
});

test('no script may be written into the page', () => {
  expect(contentSecurityPolicy('<p>')).toMatch(/script-src 'self';/);
});

test('pictures come from where the services are, also when that is another origin', () => {
  const policy = contentSecurityPolicy('<p>', ['https://abc.supabase.co', 'wss://abc.supabase.co']);
  expect(policy).toContain(`img-src 'self' data: blob: https://abc.supabase.co;`);
});
