// The attacked shop: the build in its own process, with a large stock, a large catalogue and an uploaded image.
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startThrowawayPostgresql } from '../../scripts/databases/throwaway-postgresql.ts';
import { freePort } from '../../scripts/tests/free-port.ts';
import { makeShopProcess, root } from '../environment/shop-process.ts';
import { clientFrom } from './client.ts';
import type { Target } from './target.ts';

export interface AbusedShop {
  target: Target;
  /** The product that shoppers order; total in cents with the delivery fee. */
  product: { id: string; total: number };
  secretKey: string;
  /** Folder of emails and texts without a configured provider. */
  outbox: string;
  logFile: string;
  /** Resident memory of the process. */
  residentMegabytes(): Promise<number>;
  /** Processor time that the process has used, in seconds. */
  processorSeconds(): Promise<number>;
  /** Whether the started process still runs. */
  isAlive(): boolean;
  close(): Promise<void>;
}

/**
 * Starts the shop.
 * @param kind of its database
 * @param logs folder for its log
 */
export async function startAbusedShop(kind: 'pglite' | 'postgresql', logs: string): Promise<AbusedShop> {
  const folder = await mkdtemp(join(tmpdir(), 'jani-abuse-'));
  const cluster = kind === 'postgresql' ? await startThrowawayPostgresql() : null;
  const logFile = join(logs, `${kind}.log`);
  const environment = {
    DATA_DIR: folder,
    SIMULATOR_PORT: String(await freePort()),
    // Lets a request send another IP address in X-Forwarded-For, such as an IPv6 address.
    TRUSTED_PROXIES: '1',
    ...(cluster ? { DATABASE_URL: cluster.url } : {}),
  };
  // Many systems allow no more.
  const shop = await makeShopProcess(kind, logFile, environment, { maxFiles: 4096 });
  const close = async () => {
    await shop.stop();
    await cluster?.stop();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await shop.start();
    const { publishable, secret } = JSON.parse(await readFile(join(folder, 'keys.json'), 'utf8'));
    const owner = clientFrom(shop.port, '127.0.0.1');
    const headers = { apikey: secret, authorization: `Bearer ${secret}`, 'content-type': 'application/json' };
    const stocked = await owner.send({
      method: 'PATCH',
      path: '/rest/v1/products?is_active=is.true',
      headers: { ...headers, prefer: 'return=representation' },
      body: JSON.stringify({ stock_quantity: 100_000 }),
    });
    const products = JSON.parse(stocked.body) as { id: string; slug: string; price: number }[];
    const settings = await owner.send({ path: '/rest/v1/store_settings?select=delivery_fee', headers });
    const fee = (JSON.parse(settings.body) as { delivery_fee: number }[])[0]?.delivery_fee ?? 0;
    const [product] = products;
    if (!product) throw new Error('the shop has no products');
    // As many as one answer may have, each as long as they fit in it.
    for (let part = 0; part < 4; part += 1) {
      const drinks = Array.from({ length: 250 }, (_, at) => ({
        name: `Drink ${part}-${at}`,
        slug: `drink-${part}-${at}`,
        description: `${part} ${at} `.repeat(200).slice(0, 1300),
        price: 10_000,
        stock_quantity: 1000,
      }));
      const created = await owner.send({
        method: 'POST',
        path: '/rest/v1/products',
        headers,
        body: JSON.stringify(drinks),
      });
      if (created.status !== 201) throw new Error(`the catalogue was not filled: ${created.body}`);
    }
    const imagePath = 'products/abuse.webp';
    const uploaded = await owner.send({
      method: 'POST',
      path: `/storage/v1/object/product-images/${imagePath}`,
      headers: { ...headers, 'content-type': 'image/webp' },
      body: await readFile(join(root, 'web/public/art/blackcurrant-bottle-960.webp')),
    });
    if (uploaded.status !== 200) throw new Error(`the image upload failed: ${uploaded.body}`);
    owner.close();
    return {
      target: {
        port: shop.port,
        publishableKey: publishable,
        slugs: products.map(({ slug }) => slug),
        productId: product.id,
        imagePath,
      },
      product: { id: product.id, total: product.price + fee },
      secretKey: secret,
      outbox: join(folder, 'outbox'),
      logFile,
      async residentMegabytes() {
        const status = await readFile(`/proc/${shop.pid()}/status`, 'utf8').catch(() => '');
        return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024;
      },
      async processorSeconds() {
        const stat = await readFile(`/proc/${shop.pid()}/stat`, 'utf8').catch(() => '');
        // After the name in parentheses: user and system time are fields 14 and 15, in hundredths.
        const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
        return (Number(fields[11] ?? 0) + Number(fields[12] ?? 0)) / 100;
      },
      isAlive: shop.isUp,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}
