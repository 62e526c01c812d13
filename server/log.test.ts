import { expect, test } from 'vitest';
import { formatLine, maskPath, openLog } from './log.ts';

test('never logs access keys of orders and payments', () => {
  expect(maskPath('/functions/v1/mobile-money/notice/abcdef?x=1')).toBe(
    '/functions/v1/mobile-money/notice/•••?x=1',
  );
  expect(maskPath('/functions/v1/mobile-money/till/abcdef/confirmation')).toBe(
    '/functions/v1/mobile-money/till/•••/confirmation',
  );
  expect(maskPath('/track-order/JJ-20261121-1234.data?key=secret&a=b')).toBe('/track-order/•••?key=•••&a=b');
  expect(maskPath('/t/20261121-1234-ASNFZ4mrze8BI0VniavN7w/receipt')).toBe('/t/•••/receipt');
  expect(maskPath('/track-order/JJ-20261121-1234/receipt?key=secret')).toBe(
    '/track-order/•••/receipt?key=•••',
  );
});

test('never logs tokens of links', () => {
  for (const name of [
    'token',
    'token_hash',
    'code',
    'access_token',
    'refresh_token',
    'invite_token',
    'apikey',
  ]) {
    expect(maskPath(`/auth/v1/verify/confirm?type=recovery&${name}=secret&a=b`)).toBe(
      `/auth/v1/verify/confirm?type=recovery&${name}=•••&a=b`,
    );
  }
});

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
