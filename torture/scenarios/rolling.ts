// A rolling update of three processes behind a pooler, under load: each is replaced by one of another build while customers read pages, load
// their files and order, each request at another process. Pages that were opened before the update load files after it.
import { rm } from 'node:fs/promises';
import { currentRelease } from '../../scripts/releases/releases.mjs';
import { payOrder, placeOrder } from '../actors/customer.ts';
import { makeOtherBuild } from '../environment/other-build.ts';
import { openPooledShops, type PooledShops } from '../environment/pooled-shops.ts';
import { root } from '../environment/shop-process.ts';
import type { Violation } from '../money-invariants.ts';
import type { Outcome } from '../report.ts';
import { purchaseOf } from './pooled.ts';

export interface Rolling {
  /** At least; they go on for as long as the update. */
  orders: number;
  logs: string;
}

const BUYERS = 4;
const READERS = 4;
const WITHIN_MS = 120_000;
const PAGES = ['/', '/shop', '/delivery', '/track-order'];

/** Runs the scenario. */
export async function rolling({ orders, logs }: Rolling): Promise<Outcome> {
  const startedAt = performance.now();
  const release = currentRelease(root);
  if (!release) throw new Error('the shop is not built: npm run build');
  const other = makeOtherBuild(release, 'torture-other-build');
  const shop = await openPooledShops(logs, { processes: 3 });
  const violations: Violation[] = [];
  const violate = (invariant: string, subject: string, found: string) =>
    violations.push({ invariant, subject, found });
  try {
    let isDone = false;
    let files = 0;
    const builds = new Set<string>();
    const readFiles = async (paths: Iterable<string>) => {
      for (const path of paths) {
        const { status } = await read(shop, path);
        files += 1;
        if (status !== 200) violate('every file of a page is served', path, String(status));
      }
    };
    const openPage = async (path: string) => {
      const { status, text } = await read(shop, path);
      if (status !== 200) violate('every page is served', path, String(status));
      const named = new Set([...text.matchAll(/\/assets\/[\w.-]+\.(?:js|css)/g)].map(([name]) => name));
      builds.add([...named].find((name) => name.includes('/entry.client-')) ?? '');
      return named;
    };
    const openedBefore = await openPage('/');

    let placed = 0;
    const ids: string[] = [];
    const buyer = async () => {
      while (!isDone || placed < orders) {
        const index = placed;
        placed += 1;
        const purchase = purchaseOf(shop, index);
        const shopping = {
          publishableKey: shop.publishableKey,
          timeoutMs: WITHIN_MS,
          ports: () => shop.nextPorts(),
        };
        const order = await placeOrder(shopping, purchase);
        if ('kind' in order) {
          violate('every customer can order', purchase.phone, JSON.stringify(order));
          continue;
        }
        ids.push(order.id);
        const paid = await payOrder(shopping, purchase, order);
        if (paid.kind !== 'prompted') violate('every customer gets a prompt', order.id, JSON.stringify(paid));
      }
    };
    const reader = async (_: unknown, number: number) => {
      for (let turn = number; !isDone; turn += 1) await readFiles(await openPage(PAGES[turn % 4] ?? '/'));
    };
    const update = async () => {
      try {
        for (const one of shop.shops) {
          await one.end();
          await one.start(other);
        }
        // Unknown to every process now.
        await readFiles(openedBefore);
      } finally {
        isDone = true;
      }
    };
    await Promise.all([
      update(),
      ...Array.from({ length: BUYERS }, buyer),
      ...Array.from({ length: READERS }, reader),
    ]);

    const countPaid = async () => {
      const [paid] = await shop.query(
        `select count(*)::integer as count from public.orders where payment_status = 'paid' and id = any ($1)`,
        [ids],
      );
      return paid.count as number;
    };
    violations.push(...(await shop.waitForRest(async () => (await countPaid()) === ids.length, WITHIN_MS)));
    const paid = await countPaid();
    if (paid !== ids.length) violate('every order is paid', 'orders', `${paid} of ${ids.length}`);
    if (builds.size !== 2) violate('pages of both builds were read', 'builds', [...builds].join(' '));
    return {
      name: 'rolling',
      figures: { orders: ids.length, 'paid once': paid, 'files read': files, builds: builds.size },
      violations,
      durationMs: performance.now() - startedAt,
    };
  } finally {
    await shop.close();
    await rm(other, { recursive: true });
  }
}

/**
 * Reads a page or file as through a proxy: from the next process that accepts the connection.
 * @returns status 0 when none does, or when an answer is cut
 */
async function read(shop: PooledShops, path: string): Promise<{ status: number; text: string }> {
  for (const port of shop.nextPorts()) {
    const response = await fetch(`http://127.0.0.1:${port}${path}`).catch(() => null);
    if (!response) continue;
    return response.text().then(
      (text) => ({ status: response.status, text }),
      () => ({ status: 0, text: '' }),
    );
  }
  return { status: 0, text: '' };
}
