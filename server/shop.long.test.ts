import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { openLog } from './monitoring/log.ts';
import { startShop } from './shop.ts';
import { readConfig } from './start/settings/config.ts';

test('closes WebSockets with a close frame when the shop stops, without waiting for clients', async () => {
  const root = fileURLToPath(new URL('..', import.meta.url));
  const dataDir = await mkdtemp(join(tmpdir(), 'jani-shop-'));
  const shop = await startShop({
    config: readConfig({ PORT: '0', DATA_DIR: dataDir, SEED: 'none' }, root),
    root,
    log: openLog('silent'),
    build: () => Promise.reject(new Error('no page is requested')),
    mode: 'development',
    assets: (_request, _response, next) => next(),
  });
  const address = `${shop.url.replace(/^http/, 'ws')}/realtime/v1/websocket`;
  const follower = new WebSocket(`${address}?vsn=1.0.0&apikey=${shop.keys.publishable}`);
  await new Promise((done, fail) => follower.once('open', done).once('error', fail));
  const metrics = await fetch(`${shop.url}/metrics`, {
    headers: { authorization: `Bearer ${shop.keys.secret}` },
  });
  const figures = await metrics.text();
  for (const line of [
    'realtime_sockets 1',
    'shop_database_up 1',
    'shop_payments_open{status="processing"} 0',
  ]) {
    expect(figures).toContain(`\n${line}\n`);
  }
  expect(figures).toMatch(/\ndatabase_duration_seconds_count\{kind="transaction"\} [1-9]/);
  const farewell = new Promise<number>((done) => follower.once('close', done));
  const began = performance.now();
  await shop.close();
  expect(await farewell).toBe(1001);
  // No connection was terminated, which happens after two seconds.
  expect(performance.now() - began).toBeLessThan(1900);
  await rm(dataDir, { recursive: true });
});
