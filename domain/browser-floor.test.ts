import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { browserFloor, buildTarget, floorText } from './browser-floor.ts';

test('the floor is written for build tools and for people', () => {
  expect(buildTarget).toEqual(['chrome88', 'firefox113', 'safari14.1']);
  expect(floorText).toBe('Chrome 88, Firefox 113 or Safari 14.1');
});

test.each(['docs/operating.md', 'docs/decisions/old-browsers.md'])('%s states the floor', (file) => {
  const { chrome, firefox, safari } = browserFloor;
  const text = readFileSync(join(import.meta.dirname, '..', file), 'utf8');
  expect(text).toMatch(
    new RegExp(
      `Chrome and Android WebView ${chrome}, Firefox ${firefox}(?:,| and) Safari ${String(safari).replace('.', '\\.')}`,
    ),
  );
});
