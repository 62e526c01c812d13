import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { takeTurn } from './take-turn.mjs';

function lockFile() {
  const folder = mkdtempSync(join(tmpdir(), 'take-turn-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return join(folder, 'missing', 'lock');
}

test('a second process waits until the first releases the lock', async () => {
  const lock = lockFile();
  const onWait = vi.fn();
  const order: string[] = [];
  const first = await takeTurn(lock, onWait);
  expect(onWait).not.toHaveBeenCalled();
  const second = takeTurn(lock, onWait).then((giveBack) => {
    order.push('second begins');
    giveBack();
  });
  await vi.waitFor(() => expect(onWait).toHaveBeenCalledOnce(), { timeout: 20_000 });
  order.push('first ends');
  first();
  await second;
  expect(order).toEqual(['first ends', 'second begins']);
  expect(existsSync(lock)).toBe(false);
});

test.each([
  ['that has ended', () => String(spawnSync(process.execPath, ['--version']).pid)],
  ['of the time before a power cut, whose number another one has', () => `${process.pid} before`],
])('takes over the lock of a process %s', async (_, content) => {
  const lock = lockFile();
  (await takeTurn(lock, () => {}))();
  writeFileSync(lock, content());
  const onWait = vi.fn();
  (await takeTurn(lock, onWait))();
  expect(onWait).not.toHaveBeenCalled();
});
