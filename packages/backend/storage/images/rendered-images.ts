// Cache of rendered images on this machine's disk: least recently used ones are deleted above a number of bytes.
import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { writeDurably } from '../../durable-file.ts';

export interface RenderedImages {
  /**
   * Returns the stored image for a key, or renders it. Concurrent callers share one rendering, but never another caller's place in a queue:
   * a client with many requests must not decide when others get the image.
   * @param key all that the image depends on
   * @param inTurn runs a job when it is the caller's turn; a stored image waits for none
   */
  getOrMake(
    key: string,
    inTurn: (job: () => Promise<Buffer>) => Promise<Buffer>,
    make: () => Promise<Buffer>,
  ): Promise<Buffer>;
}

/**
 * Caches images in a folder.
 * @param folder created when missing; only this cache writes to it
 * @param maxBytes in all
 */
export function createRenderedImages(folder: string, maxBytes: number): RenderedImages {
  // In the order of use: the first is the least recently used.
  let sizes: Map<string, number> | null = null;
  let opening: Promise<Map<string, number>> | null = null;
  let total = 0;
  const making = new Map<string, Promise<Buffer>>();

  const open = async (): Promise<Map<string, number>> => {
    await mkdir(folder, { recursive: true });
    const found: { name: string; size: number; used: number }[] = [];
    for (const name of await readdir(folder)) {
      const file = await stat(join(folder, name)).catch(() => null);
      if (!file) continue;
      // Half written when a process ended.
      if (name.endsWith('.draft')) await rm(join(folder, name), { force: true });
      else found.push({ name, size: file.size, used: file.mtimeMs });
    }
    found.sort((a, b) => a.used - b.used);
    total = found.reduce((sum, { size }) => sum + size, 0);
    return new Map(found.map(({ name, size }) => [name, size]));
  };
  const index = async (): Promise<Map<string, number>> => {
    opening ??= open();
    sizes ??= await opening;
    return sizes;
  };

  const read = async (name: string): Promise<Buffer | null> => {
    const entries = await index();
    const size = entries.get(name);
    if (size === undefined) return null;
    const image = await readFile(join(folder, name)).catch(() => null);
    entries.delete(name);
    if (image) entries.set(name, size);
    else total -= size;
    return image;
  };

  const store = async (name: string, image: Buffer): Promise<void> => {
    const entries = await index();
    if (image.length > maxBytes) return;
    await writeDurably(join(folder, name), image);
    total += image.length - (entries.get(name) ?? 0);
    entries.delete(name);
    entries.set(name, image.length);
    for (const [oldest, size] of entries) {
      if (total <= maxBytes) break;
      entries.delete(oldest);
      total -= size;
      await rm(join(folder, oldest), { force: true });
    }
  };

  /** Renders an image, or waits for the caller that is rendering it. */
  const makeOnce = (name: string, make: () => Promise<Buffer>): Promise<Buffer> => {
    const running = making.get(name);
    if (running) return running;
    const job = (async () => {
      const image = await make();
      // A full disk must not prevent a client from getting an image.
      await store(name, image).catch(() => {});
      return image;
    })().finally(() => making.delete(name));
    making.set(name, job);
    return job;
  };

  return {
    async getOrMake(key, inTurn, make) {
      const name = createHash('sha256').update(key).digest('hex');
      const stored = await read(name);
      if (stored) return stored;
      // Another caller may have rendered it in the meantime.
      return inTurn(async () => (await read(name)) ?? makeOnce(name, make));
    },
  };
}
