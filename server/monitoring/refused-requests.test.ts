import { expect, test, vi } from 'vitest';
import { createRefusalLog, type RefusedRequest } from './refused-requests.ts';

const refused: RefusedRequest = {
  method: 'POST',
  path: '/contact',
  status: 403,
  address: '203.0.113.7',
  reason: 'form of another site',
};

test('writes one short line, without the IP address', () => {
  const info = vi.fn();
  createRefusalLog({ log: { info } })(refused);
  expect(info.mock.calls).toEqual([
    [
      {
        method: 'POST',
        path: refused.path,
        status: 403,
        from: '203.0.113.0/24',
        reason: 'form of another site',
      },
      'request refused',
    ],
  ]);
});

test('cuts a long path', () => {
  const info = vi.fn();
  createRefusalLog({ log: { info } })({ ...refused, path: `/${'a'.repeat(10_000)}` });
  expect(info.mock.calls[0]?.[0].path.length).toBeLessThanOrEqual(200);
});

test('writes a few lines per second and counts the others in the next line', () => {
  const info = vi.fn();
  let time = 0;
  const note = createRefusalLog({ log: { info }, linesPerSecond: 5, burst: 20, now: () => time });
  for (let n = 0; n < 300; n += 1) note(refused);
  expect(info).toHaveBeenCalledTimes(20);
  time += 200;
  note(refused);
  note(refused);
  expect(info).toHaveBeenCalledTimes(21);
  expect(info.mock.lastCall?.[0]).toMatchObject({ more: 280 });
  time += 60_000;
  note(refused);
  expect(info.mock.lastCall?.[0]).toMatchObject({ more: 1 });
});
