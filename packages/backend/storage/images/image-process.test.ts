import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ImageJob } from './image-job.ts';
import { createImageProcess, type ImageProcess, type ImageProcessOptions } from './image-process.ts';
import { maxPixelsOf } from './images.ts';

/** An AVIF of 1,060 bytes with 8000 x 6000 pixels, which needs 900 MB to decode. */
const bomb =
  'AAAAHGZ0eXBhdmlmAAAAAG1pZjFhdmlmbWlhZgAAANZtZXRhAAAAAAAAACFoZGxyAAAAAAAAAABwaWN0AAAAAAAAAAAAAAAAAAAAACJpbG9jAAAAAERAAAEAAQAAAAAA+gABAAAAAAAAAyoAAAAjaWluZgAAAAAAAQAAABVpbmZlAgAAAAABAABhdjAxAAAAAA5waXRtAAAAAAABAAAAVmlwcnAAAAA4aXBjbwAAAAxhdjFDgT8CAAAAABRpc3BlAAAAAAAAH0AAABdwAAAAEHBpeGkAAAAAAwgICAAAABZpcG1hAAAAAAAAAAEAAQOBAgMAAAMybWRhdBIACgo/8z5/dvaQENBpMpkGExKExgmHnnnmgkAAAFbPzEUivi3WRS2b745pRAKLPoZvVo68nexfU8S7k2aIP1UJfNH6EDzvTzZUqg+UMRVt3HM5p0zjBTdFdeQ0eR2E+GMj//lwYRCSCoGEqoUzhjIA9peJkFpYz8xSXpGdf09h8e1pNmeD9lxgt2+gv6hg/JoXXUWmeRLeaxo6XdCCrhYiuqkwWSQpsX08sLY8xFK5p2/gVix7cKPXFt4UxOyuCa1ju2gXvWby1WRO/nTJwWBYz8xSXpGdf09h8e1pNmeD9lxgt2+gv6hg/JoXXUWmeRLeaxo6XdCCrhYiuqkwWSQpsX08sLYkJYOe1mLh9dJNTK+UeEHE5kfnqMaK45hVLtYkAHj/W6DqgLZYz8xSXpGdf09h8e1pNmeD9lxgt2+gv6hg/JoXXUWmeRLeaxo6XdCCrhYiuqkwWSQpsX08sLY8xFK5p2/gVix7cKPXFt4UxOyuCa1ju2gXvWby1WRO/nTJwWBYz8xSXpGdf09h8e1pNmeD9lxgt2+gv6hg/JoXXUWmeRLeaxo6XdCCrhYiuqkwWSQpsX08sLYkJYOe1mLh9dJNTK+UeEHE5kfnqMaK45hVLtYkAHj/W6DqgLZYz8xSXpGdf09h8e1pNmeD9lxgt2+gv6hg/JoXXUWmeRLeaxo6XdCCrhYiuqkwWSQpsX08sLY8xFK5p2/gVix7cKPXFt4UxOyuCa1ju2gXvWby1WRO/nTJwWB4z8xSXpGdf09h8e1pNmeD9lxgt2+gv6hg/JoXXUWmeRLeaxo6XdCCrhYiuqkwWSQpsX08sLYkJYOe1mLh9dJNTK+UeEHE5kfnqMaK45hVLtYkAHj/XHjChB/GzkwkPkWwvkmfNRUW2M3yzm75B8+w5d2zr+8Mk2sl4M/MUl6RnX9PYfHtaTZng/ZcYLdvoL+oYPyaF11FpnkS3msaOl3Qgq4WIrqpMFkkKbF9PLC2PMRSuadv4FYse3Cj1xbeFMTsrgmtY7toF71m8tVkTwiRxBXdkNta2il8AQDk5DG6gpBNKiTIdvOko09grD+OBN9VaA==';

let folder: string;
let small: ImageJob;
let large: ImageJob & { do: 'render' };
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'jani-images-'));
  await sharp({ create: { width: 40, height: 30, channels: 3, background: 'red' } }).toFile(
    join(folder, 'small.png'),
  );
  await writeFile(join(folder, 'bomb.avif'), Buffer.from(bomb, 'base64'));
  const rendering = { width: 20, height: 20, resize: 'cover', quality: 80, format: 'webp' } as const;
  const render = { do: 'render', to: join(folder, 'out'), maxPixels: 50_000_000, rendering } as const;
  small = { ...render, from: join(folder, 'small.png'), source: 'png' };
  large = { ...render, from: join(folder, 'bomb.avif'), source: 'avif' };
});
afterAll(() => rm(folder, { recursive: true }));

const withProcess = async (options: ImageProcessOptions, use: (process: ImageProcess) => Promise<void>) => {
  const images = createImageProcess(options);
  await use(images).finally(() => images.close());
};
const isRunning = (pid: number) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

describe('the image worker', () => {
  test('starts with the first job, does several in turn, and ends when it is idle', () =>
    withProcess({ idleMs: 1 }, async (images) => {
      expect(images.pid).toBeNull();
      const jobs = [
        images.run(small),
        images.run({ ...small, to: join(folder, 'none', 'out') }),
        images.run(small),
      ];
      expect((await Promise.all(jobs)).map(({ outcome }) => outcome)).toEqual(['done', 'failed', 'done']);
      await expect.poll(() => images.pid).toBeNull();
      expect(await images.run(small)).toEqual({ outcome: 'done' });
    }));

  test('refuses too many pixels by the header', () =>
    withProcess({ maxBytes: 300 * 2 ** 20 }, async (images) => {
      expect(await images.run({ ...large, maxPixels: maxPixelsOf('avif') })).toEqual({
        outcome: 'too many pixels',
      });
    }));

  test('reports an image that needs more memory than allowed, and does the next one', () =>
    withProcess({ maxBytes: 300 * 2 ** 20 }, async (images) => {
      expect(await images.run(large)).toEqual({ outcome: 'out of memory' });
      expect(await images.run(small)).toEqual({ outcome: 'done' });
    }));

  test('ends a worker that needs too much time, and starts another one', () =>
    withProcess({ maxCpuMs: 1 }, async (images) => {
      expect(await images.run(large)).toEqual({ outcome: 'out of time' });
    }));

  test('ends a worker that does not answer', () =>
    withProcess({ maxMs: 1 }, async (images) => {
      expect(await images.run(large)).toEqual({ outcome: 'out of time' });
    }));

  test('reports a killed worker, and starts another one', () =>
    withProcess({}, async (images) => {
      const job = images.run(large);
      await expect.poll(() => images.pid).not.toBeNull();
      process.kill(images.pid ?? 0, 'SIGKILL');
      expect(await job).toMatchObject({ outcome: 'ended', reason: expect.stringContaining('SIGKILL') });
      expect(await images.run(small)).toEqual({ outcome: 'done' });
    }));

  test('ends with its owner', () =>
    withProcess({}, async (images) => {
      await images.run(small);
      const { pid } = images;
      await images.close();
      await expect.poll(() => isRunning(pid ?? 0)).toBe(false);
      expect(await images.run(small)).toMatchObject({ outcome: 'ended' });
    }));
});
