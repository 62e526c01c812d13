// Colours, font sizes, shadows and durations are defined only in the tokens.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const web = join(import.meta.dirname, '../..');
const files = readdirSync(web, { recursive: true, encoding: 'utf8' }).filter(
  (name) => /\.(css|tsx?)$/.test(name) && !name.includes('.test.') && !name.endsWith('tokens.css'),
);
const tokens = readFileSync(join(web, 'ui/styles/tokens.css'), 'utf8');

/** Literal colours, font sizes with their own units, and literal durations. 0.01ms counts as none. */
const raw =
  /#(?:[0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})(?![0-9a-z])|\b(?:rgba?|hsla?|oklch|oklab)\([\d.]|\btext-\[(?:clamp|[\d.]+(?:rem|px|vw))|\b(?:leading|duration|ease)-\[|cubic-bezier\(|(?<![\d.\w])(?!0\.01ms)[\d.]+m?s(?=[\s,;])/gi;

/** Values outside style sheets, where tokens do not apply; each equals a token. */
const exceptions: Record<string, Record<string, string>> = {
  'root.tsx': { '#201135': '--color-dusk-900' },
  'lib/web-app-manifest.ts': { '#201135': '--color-dusk-900', '#fdf8ef': '--color-paper' },
  'rider/ride-colours.ts': {
    '#23142f': '--color-ink',
    '#5c4a68': '--color-ink-soft',
    '#fffdf9': '--color-card',
    '#f6ebda': '--color-paper-deep',
    '#452a67': '--color-dusk-700',
    '#114c2c': '--color-leaf-800',
    '#f4d228': '--color-fruit-ginger-lemon',
    '#97201a': '--color-tone-red',
    '#ffe1de': '--color-danger-soft',
  },
};

test('colours, sizes of type and durations come from the tokens', () => {
  const found = files.flatMap((name) => {
    const styled = readFileSync(join(web, name), 'utf8')
      .replaceAll(/\/\*[\s\S]*?\*\//g, '')
      .replaceAll(/^\s*\/\/.*$/gm, '');
    return [...styled.matchAll(raw)].flatMap(([value]) =>
      exceptions[name]?.[value] ? [] : [`${name}: ${value}`],
    );
  });
  expect(files.length).toBeGreaterThan(100);
  expect(found).toEqual([]);
});

test('colours outside style sheets equal their token', () => {
  for (const [name, values] of Object.entries(exceptions)) {
    for (const [value, token] of Object.entries(values)) {
      expect(readFileSync(join(web, name), 'utf8'), name).toContain(value);
      expect(tokens, name).toContain(`${token}: ${value};`);
    }
  }
});
