import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createFairQueue, QueueFull } from '../../limits/fair-queue.ts';
import { visitorAt } from '../../limits/fair-share.ts';
import { createRenderedImages, type RenderedImages } from './rendered-images.ts';

let folder: string;
let images: RenderedImages;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'jani-images-'));
  images = createRenderedImages(folder, 1_000_000);
});
afterEach(() => rm(folder, { recursive: true }));

/** A queue as in the shop, and clients that request images; `made` lists the images in the order they were started. */
function visit(maxQueuedPerShare: number) {
  const queue = createFairQueue({
    concurrency: 2,
    maxRunningPerShare: 1,
    startsPerTurn: 1,
    maxQueued: 64,
    maxQueuedPerShare,
  });
  const made: string[] = [];
  const ask = (address: string, image: string) =>
    images.getOrMake(
      image,
      (job) => queue.run(visitorAt(address), job),
      async () => {
        made.push(image);
        await new Promise((done) => setTimeout(done, 5));
        return Buffer.from(image);
      },
    );
  return { made, ask };
}
const names = Array.from({ length: 12 }, (_, index) => `image ${index}`);

test('a visitor does not wait for other requests of the client that requested the same image first', async () => {
  const { made, ask } = visit(24);
  const flood = names.map((name) => ask('192.0.2.1', name));
  await expect(ask('198.51.100.1', 'image 11')).resolves.toEqual(Buffer.from('image 11'));
  expect(made.indexOf('image 11')).toBeLessThan(4);
  await Promise.all(flood);
  expect(made.toSorted()).toEqual(names.toSorted());
});

test('a visitor is not rejected together with the client that requested the same image first', async () => {
  const { ask } = visit(3);
  const flood = Promise.allSettled(names.map((name) => ask('192.0.2.1', name)));
  const own = await Promise.allSettled(names.slice(-3).map((name) => ask('198.51.100.1', name)));
  expect(own.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled']);
  const refused = (await flood).filter((end) => end.status === 'rejected');
  expect(refused.length).toBeGreaterThan(0);
  for (const { reason } of refused) expect(reason).toBeInstanceOf(QueueFull);
});

test('an image is rendered once for concurrent requests', async () => {
  const { made, ask } = visit(24);
  await Promise.all(Array.from({ length: 20 }, (_, index) => ask(`192.0.2.${index}`, 'image 0')));
  await ask('198.51.100.1', 'image 0');
  expect(made).toEqual(['image 0']);
});
