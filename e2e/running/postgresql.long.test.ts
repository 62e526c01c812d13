// The shop on PostgreSQL: two processes share one database, and recover after the database restarts.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type Cluster,
  findPostgresql,
  startThrowawayPostgresql,
} from '../../scripts/databases/throwaway-postgresql.ts';
import { type OpenShop, openShop, until } from '../../scripts/tests/open-shop.ts';
import { openBrowser, visit } from '../browser.ts';
import { amina, order, payButton } from '../shopper.ts';

const hasPostgresql = (await findPostgresql()) !== null;

describe.skipIf(!hasPostgresql)('two processes on one PostgreSQL', () => {
  let cluster: Cluster;
  let dataDir: string;
  let first: OpenShop;
  let second: OpenShop;
  let browser: Browser;

  beforeAll(async () => {
    cluster = await startThrowawayPostgresql({});
    dataDir = await mkdtemp(join(tmpdir(), 'jani-shops-'));
    const open = () => openShop({ DATABASE_URL: cluster.url }, { dataDir });
    [first, second, browser] = await Promise.all([open(), open(), openBrowser()]);
  });
  afterAll(async () => {
    await browser.close();
    await first.close();
    await second.close();
    await rm(dataDir, { recursive: true });
    await cluster.stop();
  });

  const patch = async (shop: OpenShop, path: string, body: unknown) => {
    const answer = await fetch(`${shop.url}/rest/v1/${path}`, {
      method: 'PATCH',
      headers: { apikey: (await shop.keys()).secret, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    expect(answer.status).toBe(204);
  };

  test('migrate and seed the database once, although they start at the same time', async () => {
    for (const shop of [first, second]) {
      const page = await (await fetch(`${shop.url}/shop`)).text();
      expect(page).toContain('Embu Fresh Mango');
      expect(shop.problems()).toEqual([]);
    }
  });

  test('an order placed and paid at one process is tracked live at the other', async () => {
    const visitor = await visit(browser);
    const { page, context } = visitor;
    await order(page, first.url, 'mango-bottle', { ...amina, phone: '0719005501' });
    await payButton(page).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Track Your Order' }).click();
    await page.waitForURL(/\/track-order\/JJ-/);
    const other = await context.newPage();
    await other.goto(page.url().replace(first.url, second.url));
    await other.getByText('A••• O•••').waitFor();
    const number = /JJ-[\d-]+/.exec(page.url())?.[0];
    await patch(first, `orders?tracking_number=eq.${number}`, { status: 'delivered' });
    for (const tab of [page, other]) {
      await tab.locator('[data-status="delivered"]').first().waitFor();
    }
    expect(visitor.consoleErrors).toEqual([]);
    await visitor.close();
  });

  test('a price changed at one is on the cached pages of the other within a second', async () => {
    const read = async () => (await fetch(`${second.url}/shop/hibiscus-can`)).text();
    await read();
    expect(await read()).not.toContain('777.00');
    await patch(first, 'products?slug=eq.hibiscus-can', { price: 77700 });
    await until(async () => (await read()).includes('777.00'), 'the other process shows the new price', 1000);
  });

  test('without their database cached pages are still served, others show an error, and both recover', async () => {
    await fetch(`${first.url}/shop`);
    await cluster.kill();
    expect((await fetch(`${first.url}/readyz`)).status).toBe(503);
    expect((await fetch(`${first.url}/healthz`)).status).toBe(200);
    const search = await fetch(`${first.url}/shop?search=never-asked-before`);
    expect(search.status).toBe(503);
    expect(await search.text()).toContain('Error Loading Products');
    const home = await fetch(`${second.url}/`);
    expect(home.status).toBe(503);
    expect(await home.text()).toMatch(/Experience Premium Energy.*Error Loading Products.*Try again/s);
    await cluster.restart();
    for (const shop of [first, second]) {
      await until(async () => (await fetch(`${shop.url}/readyz`)).ok, 'it is ready again');
      await until(
        async () => (await fetch(`${shop.url}/shop?search=hibiscus`)).ok,
        'it answers searches again',
      );
    }
    // It receives notifications again, too.
    const read = async () => (await fetch(`${second.url}/shop/mango-flask`)).text();
    await read();
    await until(async () => {
      await patch(first, 'products?slug=eq.mango-flask', { price: 123400 });
      return (await read()).includes('1,234.00');
    }, 'the other process receives notifications again');
  });
});
