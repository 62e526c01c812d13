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
  await vi.waitFor(() => expect(onWait).toHaveBeenCalledOnce());
  order.push('first ends');
  first();
  await second;
  expect(order).toEqual(['first ends', 'second begins']);
  expect(existsSync(lock)).toBe(false);
});

test('takes over the lock of a process that has ended', async () => {
  const lock = lockFile();
  (await takeTurn(lock, () => {}))();
  const { pid } = spawnSync(process.execPath, ['--version']);
  writeFileSync(lock, String(pid));
  const onWait = vi.fn();
  (await takeTurn(lock, onWait))();
  expect(onWait).not.toHaveBeenCalled();
});
