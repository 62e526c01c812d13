import { expect, test } from 'vitest';
import { contentSecurityPolicy } from './content-security-policy.ts';
import { bootLate } from './late-boot.ts';

const page = [
  '<head><link rel="modulepreload" href="/assets/a.js"/><link rel="preload" href="/fonts/a.woff2"/></head>',
  '<script>window.a = 1</script>',
  `<script type="module" async="">import "/assets/a.js";\nimport("/assets/$&.js");</script>`,
].join('');

test('no module is asked for until the small boot script does so, and their text is kept as it is', () => {
  const late = bootLate(page);
  expect(late).not.toContain('modulepreload" ');
  expect(late).not.toContain('<script type="module"');
  expect(late).toContain('<link rel="late" href="/assets/a.js"/>');
  expect(late).toContain('<link rel="preload" href="/fonts/a.woff2"/>');
  expect(late).toContain('import "/assets/a.js";\nimport("/assets/$&.js");</script>');
});

test('the icon and the manifest wait for the page to come alive, and who runs no scripts has them at once', () => {
  const links = '<link rel="icon" href="/favicon.svg"/><link rel="manifest" href="/manifest.webmanifest"/>';
  const late = bootLate(page.replace('<head>', `<head>${links}`));
  expect(late).toContain(`<noscript>${links}</noscript>`);
  expect(late.replace(/<noscript>.*?<\/noscript>/, '')).not.toMatch(/favicon|webmanifest/);
  // Without any icon a browser asks for one by itself.
  expect(late).toContain('<link rel="icon" href="data:,"/>');
});

test('the policy names the boot scripts and the script that they start', () => {
  const hashes = (html: string) => contentSecurityPolicy(html).match(/'sha256-[^']+'/g) ?? [];
  expect(hashes(page)).toHaveLength(2);
  expect(hashes(bootLate(page))).toHaveLength(4);
  // The module script runs later with the very text that the page had it in.
  expect(hashes(bootLate(page))).toEqual(expect.arrayContaining(hashes(page)));
});

test('a page without scripts of the router stays as it is', () => {
  expect(bootLate('<p>hello</p>')).toBe('<p>hello</p>');
});
