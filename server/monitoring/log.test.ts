import { expect, test } from 'vitest';
import { formatLine, openLog } from './log.ts';

test('limits errors of one message per second, but not lines of normal use', () => {
  const lines: Record<string, unknown>[] = [];
  const log = openLog('info', { write: (line) => void lines.push(JSON.parse(line)) });
  for (let n = 0; n < 1000; n += 1) log.error({ error: 'a long stack' }, 'internal error');
  expect(lines.length).toBeGreaterThanOrEqual(20);
  expect(lines.length).toBeLessThan(40);
  log.error({ error: 'another' }, 'a page could not be rendered');
  expect(lines.at(-1)).toMatchObject({ error: 'another', msg: 'a page could not be rendered' });
  const before = lines.length;
  for (let n = 0; n < 100; n += 1) log.info({ n }, 'mobile money');
  expect(lines.length).toBe(before + 100);
});

test('is readable at a terminal', () => {
  const time = new Date(2026, 10, 22, 18, 5, 9).toISOString();
  const line = (event: object) => formatLine(JSON.stringify({ level: 'info', time, ...event }));
  expect(line({ applied: 3, msg: 'database migrated' })).toBe('18:05:09  info  database migrated  applied=3');
  expect(line({ path: '/shop', error: 'Error: no\n    at here', msg: 'internal error' })).toBe(
    '18:05:09  info  internal error  path=/shop\n    Error: no\n        at here',
  );
});
