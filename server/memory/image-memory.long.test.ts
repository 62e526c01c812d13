// The shop's memory after large photos and images that expand to many pixels, with the allocator's settings of `npm start`.
import { readFileSync } from 'node:fs';
import sharp from 'sharp';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type OpenShop, openShop } from '../../scripts/tests/open-shop.ts';

const maxGrowthMb = 60;
/** The worker's own limit is 1 GiB; the shop itself stays below this at any moment. */
const maxPeakGrowthMb = 120;

let shop: OpenShop;
beforeAll(async () => {
  shop = await openShop();
});
afterAll(() => shop?.close());

const status = (name: 'VmRSS' | 'VmHWM') => {
  const text = readFileSync(`/proc/${shop.pid()}/status`, 'utf8');
  return Number(new RegExp(`${name}:\\s+(\\d+)`).exec(text)?.[1]) / 1024;
};

const upload = async (name: string, content: Buffer, type: string) => {
  const { secret } = await shop.keys();
  const answer = await fetch(`${shop.url}/storage/v1/object/product-images/products/${name}`, {
    method: 'POST',
    headers: { apikey: secret, authorization: `Bearer ${secret}`, 'content-type': type, 'x-upsert': 'true' },
    body: new Uint8Array(content),
  });
  return { status: answer.status, text: await answer.text() };
};

const read = async (path: string) => {
  const answer = await fetch(`${shop.url}${path}`);
  await answer.arrayBuffer();
  return answer.status;
};

test.runIf(process.platform === 'linux')(
  'stays within 60 MB after eleven photos of 48 megapixels and AVIF bombs',
  async () => {
    const grain = await sharp({
      create: {
        width: 800,
        height: 600,
        channels: 3,
        background: 'white',
        noise: { type: 'gaussian', mean: 128, sigma: 50 },
      },
    })
      .png()
      .toBuffer();
    const photo = await sharp(grain)
      .resize(8000, 6000)
      .jpeg({ quality: 80 })
      .withMetadata({ orientation: 6 })
      .toBuffer();
    const avif = await sharp(grain).resize(3000, 2000).avif({ effort: 0 }).toBuffer();
    const bomb = await sharp({ create: { width: 8000, height: 6000, channels: 3, background: 'green' } })
      .avif({ effort: 0 })
      .toBuffer();
    expect(bomb.length).toBeLessThan(2000);

    // What any shop does, so that the code of these requests is loaded.
    expect(await upload('small.png', grain, 'image/png')).toMatchObject({ status: 200 });
    expect(await read('/shop')).toBe(200);
    const before = status('VmRSS');
    const peakBefore = status('VmHWM');

    for (let round = 0; round < 11; round += 1) {
      expect(await upload(`photo-${round}.jpg`, photo, 'image/jpeg')).toMatchObject({ status: 200 });
    }
    const bombs = await Promise.all([0, 1, 2].map((n) => upload(`bomb-${n}.avif`, bomb, 'image/avif')));
    for (const { text } of bombs) expect(text).toContain('The image is too large: 12 million pixels');
    expect(await upload('photo.avif', avif, 'image/avif')).toMatchObject({ status: 200 });
    const rendering = 'width=240&height=240';
    const files = ['photo-0.jpg', 'photo-1.jpg', 'photo.avif'];
    const path = '/storage/v1/render/image/public/product-images/products';
    expect(await Promise.all(files.map((name) => read(`${path}/${name}?${rendering}`)))).toEqual([
      200, 200, 200,
    ]);
    expect(await read('/share/mango-can.jpg')).toBe(200);

    await expect.poll(() => status('VmRSS') - before, { timeout: 30_000 }).toBeLessThan(maxGrowthMb);
    expect(status('VmHWM') - peakBefore).toBeLessThan(maxPeakGrowthMb);
    expect(shop.problems()).toEqual([]);
  },
  600_000,
);
