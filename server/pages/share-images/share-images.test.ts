// Images for shared links, requested from a shop with its demo catalogue.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { copyMigratedDatabase } from '@jani-juice/backend/testing';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { shareImagePath, squareShareImagePath } from '../../../domain/products/share-image.ts';
import { shopMigrations } from '../../../scripts/databases/shop-migrations.ts';
import { openLog } from '../../monitoring/log.ts';
import { type Shop, startShop } from '../../shop.ts';
import { readConfig } from '../../start/settings/config.ts';
import { breakLines, shareDrawing, toDrawableText } from './share-drawing.ts';

describe('a share image', () => {
  let shop: Shop;
  let dataDir: string;

  beforeAll(async () => {
    const root = fileURLToPath(new URL('../../..', import.meta.url));
    dataDir = await mkdtemp(join(tmpdir(), 'jani-shop-'));
    await copyMigratedDatabase(join(dataDir, 'database'), shopMigrations);
    shop = await startShop({
      config: readConfig({ PORT: '0', DATA_DIR: dataDir, SIMULATOR_PORT: '0' }, root),
      root,
      log: openLog('silent'),
      build: () => Promise.reject(new Error('no page is asked for')),
      mode: 'development',
      assets: (_request, _response, next) => next(),
    });
  });
  afterAll(async () => {
    await shop.close();
    await rm(dataDir, { recursive: true });
  });

  const ask = (path: string, init: RequestInit = {}) =>
    fetch(`${shop.url}${path}`, { redirect: 'manual', ...init });
  const asOwner = (path: string, init: RequestInit) =>
    ask(path, {
      ...init,
      headers: { apikey: shop.keys.secret, ...(init.headers as Record<string, string>) },
    });
  const change = async (slug: string, changes: Record<string, unknown>) => {
    const answer = await asOwner(`/rest/v1/products?slug=eq.${slug}`, {
      method: 'PATCH',
      headers: { 'content-type': 'application/json', prefer: 'return=representation' },
      body: JSON.stringify(changes),
    });
    const [product] = await answer.json();
    return product;
  };
  const bytesOf = async (path: string) => Buffer.from(await (await ask(path)).arrayBuffer());

  test('is square on request, with other pixels', async () => {
    const product = await change('mango-can', { tagline: 'Sun in a can' });
    const path = squareShareImagePath(product, 'Jani Juice') ?? '';
    const { width, height } = await sharp(await bytesOf(path)).metadata();
    expect([width, height]).toEqual([1200, 1200]);
    expect((await ask(path)).headers.get('cache-control')).toContain('immutable');
    expect(squareShareImagePath({ ...product, image_url: null }, 'Jani Juice')).toBeNull();
  });

  test('is a JPEG of 1200 x 630, immutable under its versioned URL', async () => {
    const product = await change('mango-can', { tagline: 'Sun in a can' });
    const path = shareImagePath(product, 'Jani Juice');
    const answer = await ask(path);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toBe('image/jpeg');
    expect(answer.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
    const body = Buffer.from(await answer.arrayBuffer());
    expect(await sharp(body).metadata()).toMatchObject({ format: 'jpeg', width: 1200, height: 630 });
    // Social networks ignore images above several hundred kilobytes.
    expect(body.length).toBeLessThan(300_000);
    const head = await ask(path, { method: 'HEAD' });
    expect(head.headers.get('content-length')).toBe(String(body.length));
    expect((await ask('/share/mango-can.jpg?v=old')).headers.get('cache-control')).toBe(
      'public, max-age=300',
    );
  });

  test('shows the current price', async () => {
    const before = await bytesOf('/share/mango-bottle.jpg');
    expect(await bytesOf('/share/mango-bottle.jpg')).toEqual(before);
    await change('mango-bottle', { price: 123_400 });
    expect(await bytesOf('/share/mango-bottle.jpg')).not.toEqual(before);
  });

  test('uses the uploaded image', async () => {
    const red = await sharp({ create: { width: 400, height: 300, channels: 3, background: '#ff0000' } })
      .png()
      .toBuffer();
    const path = 'product-images/products/red.png';
    const sent = await asOwner(`/storage/v1/object/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'image/png' },
      body: new Uint8Array(red),
    });
    expect(sent.status).toBe(200);
    await change('mango-flask', { image_url: `/storage/v1/object/public/${path}` });
    const { data, info } = await sharp(await bytesOf('/share/mango-flask.jpg'))
      .raw()
      .toBuffer({ resolveWithObject: true });
    const at = (300 * info.width + 1150) * info.channels;
    expect(data[at]).toBeGreaterThan(240);
    expect(data[at + 1]).toBeLessThan(15);
  });

  test.each([
    ['no image', null],
    ['an external image, which this server does not fetch', 'http://127.0.0.1:9/private.png'],
    ['a missing image', '/art/no-such-drink-960.webp'],
    ['a path outside the art folder', '/art/../../package.json'],
  ])("of a product with %s is the shop's own", async (_, image_url) => {
    await change('passion-can', { image_url });
    const answer = await ask('/share/passion-can.jpg');
    expect(answer.status).toBe(302);
    expect(answer.headers.get('location')).toBe('/art/share.jpg');
  });

  test('exists only for products that are for sale', async () => {
    await change('passion-flask', { is_active: false });
    for (const path of ['/share/passion-flask.jpg', '/share/no-such.jpg', '/share/', '/share/MANGO.jpg']) {
      expect((await ask(path)).status, path).toBe(404);
    }
    expect((await ask('/share/mango-can.jpg', { method: 'POST' })).status).toBe(405);
  });

  test('is drawn once for concurrent requests', async () => {
    const sizes = await Promise.all(
      Array.from({ length: 12 }, async () => (await bytesOf('/share/watermelon-can.jpg')).length),
    );
    expect(new Set(sizes).size).toBe(1);
  });
});

describe('its text', () => {
  test('loses accents and unknown characters', () => {
    expect(toDrawableText('  Crème  brûlée – “Jani’s” 🧃 №1 ')).toBe("Creme brulee - Jani's No1");
    expect(toDrawableText('ジュース')).toBe('');
  });

  test('breaks between words', () => {
    const lines = breakLines('Embu Fresh Ginger & Lemon Double-Infused', 60, 500);
    expect(lines.length).toBeGreaterThan(1);
    expect(lines.join(' ')).toBe('Embu Fresh Ginger & Lemon Double-Infused');
  });

  test('can be long, unusual or malicious', async () => {
    for (const name of [
      'A',
      'X'.repeat(300),
      'ジュース',
      `</svg><script>alert(1)</script>`,
      'word '.repeat(60),
    ]) {
      const drawing = shareDrawing({ storeName: 'Jani Juice', name, price: 'KSh 950.00' });
      expect(drawing).not.toContain('<script');
      expect(await sharp(Buffer.from(drawing)).metadata()).toMatchObject({ width: 1200, height: 630 });
    }
  });
});
